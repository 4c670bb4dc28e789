/** Starts the view: reads the data in the page and puts the report in the place of the plain text. */
import { DataError, readExplanation, readIndex } from "./data";
import { failure, Report } from "./report";

function start(): void {
  const root = document.getElementById("slalom-view")!;
  const blocks = document.querySelectorAll(".slalom-data");
  try {
    const index = readIndex(document.getElementById("slalom-index")?.textContent ?? "");
    if (index.texts.length === 0) throw new DataError("the report holds no texts");
    const report = new Report(index, (place) => {
      const block = blocks[place];
      if (!block) throw new DataError(`explanation ${place + 1} is missing from the page`);
      return readExplanation(block.textContent ?? "", place);
    });
    root.replaceChildren(report.element);
  } catch (error) {
    // The plain text stays below the message.
    root.prepend(failure(error instanceof DataError ? error.message : `an error in the page itself (${String(error)})`));
  }
}

start();
