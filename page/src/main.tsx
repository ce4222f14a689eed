// Where the page begins.

import { render } from "preact";
import { App } from "./app";
import { apply, theme } from "./theme";

apply(theme());
const root = document.getElementById("root");
if (root) render(<App />, root);
