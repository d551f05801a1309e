const $ = id => document.getElementById(id), MAX_SHOWN = 50;
const form = $("filter"), words = $("words"), menus = [...form.querySelectorAll("select")];
const groups = [...document.querySelectorAll(".misses:has(article)")].map(group => ({
  none: group.querySelector(".none"), more: group.querySelector("button"), isWhole: false,
  all: [...group.querySelectorAll("article")].map(article => ({ article })) }));
// The searchable text is read only once: in an idle moment, or when it is first needed.
const textOf = miss => miss.text ??= miss.article.textContent.toLowerCase();
function show() {
  const wordsToFind = words.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const group of groups) {
    const matching = group.all.filter(miss => wordsToFind.every(word => textOf(miss).includes(word))
      && menus.every(({ id, value }) => !value || miss.article.querySelector(`.${id}`)?.textContent === value));
    const shown = new Set(group.isWhole ? matching : matching.slice(0, MAX_SHOWN));
    for (const miss of group.all) if (miss.article.hidden === shown.has(miss)) miss.article.hidden ^= true;
    group.more.hidden = shown.size === matching.length;
    group.none.hidden = matching.length > 0;
  }
}
function moveFocus(step) {
  const visible = groups.flatMap(group => group.all).map(miss => miss.article).filter(article => !article.hidden);
  const current = visible.indexOf(document.activeElement?.closest("article"));
  visible[current < 0 ? 0 : Math.min(Math.max(current + step, 0), visible.length - 1)]?.focus();
}
function showLinked() {
  const target = $(location.hash.slice(1))?.closest("article");
  if (target) { target.hidden = false; target.scrollIntoView(); }
}
form.hidden = false;
form.onsubmit = event => event.preventDefault();
form.oninput = show;
for (const group of groups) group.more.onclick = () => { group.isWhole = true; show(); };
addEventListener("hashchange", showLinked);
addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select")) return;
  if (event.key === "/") { event.preventDefault(); words.focus(); }
  if (event.key === "j" || event.key === "k") moveFocus(event.key === "j" ? 1 : -1);
});
show();
showLinked();
(window.requestIdleCallback ?? setTimeout)(() => groups.forEach(group => group.all.forEach(textOf)));
