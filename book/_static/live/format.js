/**
 * A number in the forms of d3-format that readouts use: `d f g r e %` with `,` and a precision.
 * The build has the same function in Python (`live_still.readout`).
 */
export function readout(value, form = "") {
  const found = /^(,?)(?:\.(\d+))?([dfgre%])$/.exec(form);
  if (!found) return String(value);
  const [, comma, digits, kind] = found;
  const precision = digits === undefined ? 6 : Number(digits);
  const text = FORMS[kind](value, precision);
  return comma ? text.replace(/^-?\d+/, (whole) => whole.replace(/\B(?=(\d{3})+$)/g, ",")) : text;
}

const FORMS = {
  d: (value) => String(Math.round(value)),
  f: (value, precision) => value.toFixed(precision),
  e: (value, precision) => value.toExponential(precision),
  "%": (value, precision) => `${(value * 100).toFixed(precision)}%`,
  g: general,
  r: rounded,
};

/** As C's `%#g`: an exponent only below 1e-4 or from 10 to the precision on. */
function general(value, precision) {
  const significant = Math.max(precision, 1);
  const [mantissa, exponent] = value.toExponential(significant - 1).split("e");
  const power = Number(exponent);
  if (power < -4 || power >= significant) return `${mantissa}e${power < 0 ? "-" : "+"}${Math.abs(power)}`;
  return value.toFixed(significant - 1 - power);
}

/** Rounded to significant digits, never with an exponent. */
function rounded(value, precision) {
  const short = Number(value.toPrecision(Math.max(precision, 1)));
  const power = short === 0 ? 0 : Number(short.toExponential().split("e")[1]);
  return short.toFixed(Math.min(100, Math.max(0, precision - 1 - power)));
}

/** Bytes for a reader: "7.1 MB". */
export const megabytes = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;
