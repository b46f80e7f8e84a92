// "/" goes to the search, "j" and "k" walk through what a page lists. Everything works without this file.
"use strict";

const ITEMS = "main h2 a, main .list > li > a, main .timeline a, main table a, main svg.graph a, main form[method=post] button";

function moveFocus(step) {
  const items = [...document.querySelectorAll(ITEMS)].filter((item) => item.checkVisibility());
  const now = items.indexOf(document.activeElement);
  const next = items[now < 0 ? (step > 0 ? 0 : items.length - 1) : now + step];
  if (next) {
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  }
}

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.matches("input, textarea, select");
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && isTyping) event.target.blur();
  if (isTyping) return;
  if (event.key === "/") {
    event.preventDefault();
    const field = document.getElementById("q");
    if (field) field.select();
    else location.assign("/");
  } else if (event.key === "j") moveFocus(1);
  else if (event.key === "k") moveFocus(-1);
});
