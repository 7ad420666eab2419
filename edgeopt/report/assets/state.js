"use strict";
// What the other scripts share: the numbers of the page, what is kept by filters, and small tools.
let report = null;
const byId = (id) => document.getElementById(id);
const make = (name, attributes = {}, text = "") => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
};

// A value in the unit of its axis, as a person writes it.
function shownValue(axis, value) {
  const { factor, format } = report.axes[axis];
  if (format.endsWith("%")) return `${Number((100 * value).toPrecision(4))} %`;
  return String(Number((value / factor).toPrecision(3)));
}

const valueOf = (device, axis, index) => report.devices[device].values[axis][0][index];
const rowsOf = (device) => document.querySelectorAll(`.candidates[data-device="${device}"] tbody tr`);
const rowOf = (device, id) =>
  document.querySelector(`.candidates[data-device="${device}"] tr[data-id="${CSS.escape(id)}"]`);

// The text of a packed element: base64 of gzip.
async function unpacked(id) {
  const bytes = Uint8Array.from(atob(byId(id).textContent.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

const filter = {
  ranges: new Map(), // axis to [low, high] in SI units; infinite at an open end
  text: "",
  onlyFront: false,
  watchers: [],
  get active() {
    return this.ranges.size > 0 || this.text !== "" || this.onlyFront;
  },
  keeps(device, row) {
    const index = report.devices[device].place.get(row.dataset.id);
    if (this.onlyFront && !row.classList.contains("front")) return false;
    if (this.text && !row.textContent.toLowerCase().includes(this.text)) return false;
    for (const [axis, [low, high]] of this.ranges) {
      const value = index === undefined ? null : valueOf(device, axis, index);
      if (value === null || value < low || value > high) return false;
    }
    return true;
  },
  changed() {
    // For each device the ids that are kept; null where nothing is filtered.
    this.kept = report.devices.map((_, device) => {
      if (!this.active) return null;
      const found = {};
      for (const row of rowsOf(device)) if (this.keeps(device, row)) found[row.dataset.id] = true;
      return found;
    });
    for (const watcher of this.watchers) watcher(this.kept);
  },
};

// What is looked at, with the pointer or with keys: every view marks it.
const looking = {
  watchers: [],
  at(device, id) {
    if (this.device === device && this.id === id) return;
    this.device = device;
    this.id = id;
    for (const watcher of this.watchers) watcher(device, id);
  },
};
looking.watchers.push((device, id) => {
  for (const row of document.querySelectorAll("tr.pointed")) row.classList.remove("pointed");
  if (id) rowOf(device, id)?.classList.add("pointed");
});

// Text of a table's row as a card: its columns by their titles.
function cardOf(device, id) {
  const row = rowOf(device, id);
  const heads = row.closest("table").tHead.rows[0].cells;
  const card = document.createDocumentFragment();
  const named = report.devices[device].named[id];
  card.append(make("b", {}, `${id}${named ? ` · ${named}` : ""}`));
  const what = row.cells[1];
  card.append(make("p", {}, [...what.childNodes]
    .filter((node) => !node.classList?.contains("tag"))
    .map((node) => (node.nodeName === "BR" ? "; " : node.textContent)).join("")));
  const list = make("dl");
  for (let column = 2; column < row.cells.length; column += 1) {
    const text = row.cells[column].textContent.trim();
    if (!text || text === "absent" || heads[column].dataset.key?.includes("@")) continue;
    list.append(make("dt", {}, heads[column].textContent), make("dd", {}, text));
  }
  card.append(list);
  return card;
}

const card = {
  show(device, id, x, y) {
    const box = byId("card");
    box.replaceChildren(cardOf(device, id));
    box.hidden = false;
    const { width, height } = box.getBoundingClientRect();
    const left = x + 16 + width > innerWidth ? Math.max(4, x - width - 16) : x + 16;
    box.style.left = `${left}px`;
    box.style.top = `${Math.max(4, Math.min(y + 12, innerHeight - height - 4))}px`;
  },
  hide() {
    byId("card").hidden = true;
  },
};
