// Searches the memories of this file: all words have to stand in one; its title counts most, then what brings it up.
"use strict";

const field = document.getElementById("q");
const list = document.getElementById("memories");
const fold = (text = "") => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
const entries = [...list.children].map((entry, place) => {
  const [title, phrases] = ["h2", ".phrases"].map((part) => fold(entry.querySelector(part)?.textContent));
  return { entry, place, title, phrases, text: fold(entry.textContent), score: 0 };
});

function find() {
  const words = fold(field.value).split(/\s+/).filter(Boolean);
  for (const each of entries) {
    const scores = words.map((word) => 8 * each.title.includes(word) + 4 * each.phrases.includes(word) + each.text.includes(word));
    each.score = scores.every(Boolean) ? scores.reduce((sum, score) => sum + score, 0) : -1;
    each.entry.hidden = each.score < 0;
  }
  const found = entries.filter((each) => each.score >= 0);
  list.append(...found.sort((one, other) => other.score - one.score || one.place - other.place).map((each) => each.entry));
  field.form.querySelector("[role=status]").textContent = words.length ? `${found.length} of ${entries.length} memories` : "";
}

function openTarget() {
  const target = document.getElementById(location.hash.slice(1));
  const entry = target?.closest("details");
  if (!entry) return;
  entry.hidden = false;
  entry.open = true;
  target.scrollIntoView();
}

field.form.hidden = false;
field.form.addEventListener("submit", (event) => event.preventDefault());
field.addEventListener("input", find);
addEventListener("hashchange", openTarget);
openTarget();
