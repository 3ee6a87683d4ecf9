const FORBIDDEN = "script:not(.aiinfra-spec), style, iframe, object, embed, link, meta, base, form";

/**
 * The HTML of a widget as a fragment in which nothing can run: it comes from the course's own package, but a page
 * should not have to trust that. The inert script that carries a chart's spec stays, for the caller to take.
 */
export function clean(text) {
  const page = new DOMParser().parseFromString(text, "text/html");
  for (const element of page.querySelectorAll(FORBIDDEN)) element.remove();
  for (const element of page.querySelectorAll("*")) {
    for (const { name, value } of [...element.attributes]) {
      if (name.startsWith("on") || /^\s*(javascript|data):/i.test(value)) element.removeAttribute(name);
    }
  }
  const fragment = document.createDocumentFragment();
  fragment.append(...page.body.childNodes);
  return fragment;
}
