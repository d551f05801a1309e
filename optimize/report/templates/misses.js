const $ = id => document.getElementById(id), SHOWN = 50;
const form = $("filter"), words = $("words"), picks = [...form.querySelectorAll("select")];
const groups = [...document.querySelectorAll(".misses:has(article)")].map(group => ({
  none: group.querySelector(".none"), more: group.querySelector("button"), isWhole: false,
  all: [...group.querySelectorAll("article")].map(article => ({ article })) }));
// The searchable text is read only once: in an idle moment, or when it is first needed.
const textOf = one => one.text ??= one.article.textContent.toLowerCase();
const namesOf = (one, kind) => (one[kind] ??=
  [...one.article.querySelectorAll(`.${kind}`)].map(each => each.textContent));
function show() {
  const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
  const chosen = picks.filter(pick => pick.value);
  for (const group of groups) {
    const hits = group.all.filter(one => wanted.every(word => textOf(one).includes(word))
      && chosen.every(pick => namesOf(one, pick.name).includes(pick.value)));
    const seen = new Set(group.isWhole ? hits : hits.slice(0, SHOWN));
    for (const one of group.all) if (one.article.hidden === seen.has(one)) one.article.hidden ^= true;
    group.more.hidden = seen.size === hits.length;
    group.none.hidden = hits.length > 0;
  }
}
function walk(step) {
  const open = groups.flatMap(group => group.all).map(one => one.article).filter(one => !one.hidden);
  const now = open.indexOf(document.activeElement?.closest("article"));
  open[now < 0 ? 0 : Math.min(Math.max(now + step, 0), open.length - 1)]?.focus();
}
function linked() {
  const target = $(location.hash.slice(1))?.closest("article");
  if (target) { target.hidden = false; target.scrollIntoView(); }
}
form.hidden = false;
form.onsubmit = event => event.preventDefault();
form.oninput = show;
for (const group of groups) group.more.onclick = () => { group.isWhole = true; show(); };
addEventListener("hashchange", linked);
addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select")) return;
  if (event.key === "/") { event.preventDefault(); words.focus(); }
  if (event.key === "j" || event.key === "k") walk(event.key === "j" ? 1 : -1);
});
show();
linked();
(window.requestIdleCallback ?? setTimeout)(() => groups.forEach(group => group.all.forEach(textOf)));
