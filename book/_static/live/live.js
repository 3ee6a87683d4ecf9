/** Entry point: makes every live figure of the page move. One Python serves all of them. */
import { Figure } from "./figure.js";
import { Python } from "./python.js";

const python = new Python();
for (const element of document.querySelectorAll("figure.live-figure")) new Figure(element, python);
