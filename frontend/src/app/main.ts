/** Starts the page of slalom serve. */
import { Page } from "./page";

document.getElementById("slalom-app")!.replaceChildren(new Page().element);
