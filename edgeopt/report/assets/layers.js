// The difference of two models layer by layer: aligned by their partners in the given model.
const layers = {
  device: 0,
  take(device, id) {
    if (!report.built[device]?.[id]) return;
    const select = byId("layer-to");
    if (byId("layer-device")) byId("layer-device").value = String(device);
    this.device = device;
    fillModels();
    select.value = id;
    showLayers();
  },
};

// The layers of a model on a device, columns turned into rows.
function layerRows(device, id) {
  const mine = report.built[device][id];
  const { strings, tables } = report.layers;
  const table = tables[mine.table];
  const text = (place) => (place === null || place === undefined ? "" : strings[place]);
  return table.value.map((value, at) => ({
    value: text(value),
    name: text(table.name[at]),
    operator: text(table.operator[at]),
    asked: text(table.asked[at]),
    ran: text(mine.ran[at]) || (mine.into[at] === null ? "" : `in ${text(table.name[mine.into[at]]) || text(table.value[mine.into[at]])}`),
    shape: text(table.shape[at]),
    width: table.width[at],
    weight_bytes: table.weight_bytes[at],
    macs: table.macs[at],
    time_s: mine.time_s[at],
    snr_db: table.snr_db[at],
    actions: table.actions[at].map(text),
    partner: report.partners[mine.table]?.[at] ?? null,
  }));
}

// Pairs in the order of the second model; what only the first has stands where it stood. The same
// partner in the given model makes two layers one; new layers are one where their value is.
function layerPairs(from, to) {
  const places = new Map();
  from.forEach((row, at) => places.set(row.partner === null ? row.value : row.partner, at));
  const chosen = to.map((row) => places.get(row.partner === null ? row.value : row.partner) ?? null);
  const paired = new Set(chosen);
  const pairs = [];
  let done = 0;
  const gone = (until) => {
    for (; done < until; done += 1) if (!paired.has(done)) pairs.push([from[done], null]);
  };
  to.forEach((row, place) => {
    const at = chosen[place];
    if (at !== null && at >= done) {
      gone(at);
      done = at + 1;
    }
    pairs.push([at === null ? null : from[at], row]);
  });
  gone(from.length);
  return pairs;
}

const counted = (value) => {
  if (value === null || value === undefined) return "";
  for (const [limit, sign] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (value >= limit) return `${Number((value / limit).toPrecision(3))} ${sign}`;
  }
  return String(value);
};
const timed = (value) =>
  (value === null || value === undefined ? "" : value < 1e-3 ? `${Number((value * 1e6).toPrecision(3))} µs` : `${Number((value * 1e3).toPrecision(3))} ms`);

const LAYER_COLUMNS = [
  ["operator", (row) => row.operator],
  ["asked", (row) => row.asked],
  ["ran", (row) => row.ran],
  ["width", (row) => (row.width === null ? "" : String(row.width))],
  ["output", (row) => row.shape],
  ["bytes", (row) => counted(row.weight_bytes || null)],
  ["multiply-adds", (row) => counted(row.macs)],
  ["time", (row) => timed(row.time_s)],
];

// A layer that ran inside of another says nothing of its own precision.
const alike = (title, a, b) => a === b || (title === "ran" && [a, b].some((text) => text === "" || text.startsWith("in ")));

function isChanged([old, now]) {
  if (!old || !now) return true;
  const same = LAYER_COLUMNS.every(([title, read]) => title === "time" || alike(title, read(old), read(now)));
  return !same || now.actions.join() !== old.actions.join();
}

// Value to the action that took the layer out which made it.
function layersRemoved(device, id) {
  const { strings, tables } = report.layers;
  const { removed } = tables[report.built[device][id].table];
  return new Map((removed ?? []).map(([value, action]) => [strings[value], strings[action]]));
}

function layerRow([old, now], removed) {
  const row = make("tr");
  const either = now ?? old;
  const head = make("th", { scope: "row" }, either.name || either.value);
  if (!old || !now) head.append(make("br"), make("span", { class: "tag" }, old ? "gone" : "new"));
  row.append(head);
  for (const [title, read] of LAYER_COLUMNS) {
    const [a, b] = [old ? read(old) : "", now ? read(now) : ""];
    const cell = make("td", { class: "n" });
    if (a && b && a !== b) {
      cell.append(make("span", { class: "from" }, `${a} → `), b);
      if (title !== "time" && !alike(title, a, b)) cell.classList.add("changed");
    } else if (old && now) cell.textContent = a || b;
    else cell.append(old ? make("s", { class: "from" }, a) : b);
    // Asked for and not what ran: what a reader would otherwise have to compare by eye.
    if (title === "ran" && b && !b.startsWith("in ") && b !== now.asked) cell.classList.add("otherwise");
    row.append(cell);
  }
  const snr = now?.snr_db;
  row.append(make("td", { class: "n" }, snr === null || snr === undefined ? "" : snr >= 200 ? "same" : `${snr} dB`));
  const actions = now ? now.actions.filter((text) => !old?.actions.includes(text)) : [removed.get(old.value) ?? ""];
  row.append(make("td", { class: "w" }, actions.join("; ")));
  return row;
}

// The two models metric by metric, in the words of the table above, and what their layers add up to.
function layerSums(from, to, ids) {
  const list = make("dl", { class: "sums" });
  const tell = (name, a, b) => {
    const pair = make("div");
    pair.append(make("dt", {}, name), make("dd", {}, a === b ? `${a}` : `${a} → ${b}`));
    list.append(pair);
  };
  const [mine, theirs] = ids.map((id) => rowOf(layers.device, id));
  [...mine.closest("table").tHead.rows[0].cells].forEach((head, column) => {
    const [a, b] = [mine, theirs].map((row) => row.cells[column].textContent.trim());
    if (!head.dataset.key || head.dataset.key === "id" || head.dataset.key.includes("@")) return;
    if (a !== "absent" && b !== "absent") tell(head.textContent, a, b);
  });
  const sum = (rows, name) => rows.reduce((total, row) => total + (row[name] ?? 0), 0);
  const told = [["layers", from.length, to.length],
    ["bytes of weights", counted(sum(from, "weight_bytes")), counted(sum(to, "weight_bytes"))],
    ["multiply-adds", counted(sum(from, "macs")), counted(sum(to, "macs"))]];
  if (from.some((row) => row.time_s) && to.some((row) => row.time_s)) {
    told.push(["time, profiled", timed(sum(from, "time_s")), timed(sum(to, "time_s"))]);
  }
  told.forEach((row) => tell(...row));
  return list;
}

// Why a column has no values, once for both models.
function layerAbsent(device, ids) {
  const found = new Map();
  for (const id of ids) {
    const mine = report.built[device][id];
    for (const [column, why] of Object.entries(report.layers.tables[mine.table].absent ?? {})) {
      if (why) found.set(`${column}: ${why}`, true);
    }
    if (mine.absent) found.set(`what ran in ${id}: ${mine.absent}`, true);
  }
  return [...found.keys()];
}

function showLayers() {
  const holder = byId("layer-found");
  const [a, b] = [byId("layer-from").value, byId("layer-to").value];
  if (!a || !b) return;
  const [from, to] = [layerRows(layers.device, a), layerRows(layers.device, b)];
  const pairs = layerPairs(from, to);
  const shown = byId("layer-all").checked ? pairs : pairs.filter(isChanged);
  const table = make("table");
  table.append(make("caption", {}, `${shown.length} of ${pairs.length} layers${byId("layer-all").checked ? "" : " differ"}; what differs is marked. Signal to noise: of ${b} against the given model's value.`));
  const heads = make("tr");
  for (const title of ["layer", ...LAYER_COLUMNS.map(([name]) => name), "signal to noise", "by what"]) {
    heads.append(make("th", { scope: "col" }, title));
  }
  const head = make("thead");
  head.append(heads);
  const body = make("tbody");
  const removed = layersRemoved(layers.device, b);
  body.append(...shown.map((pair) => layerRow(pair, removed)));
  table.append(head, body);
  const scroll = make("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": "layers of two models" });
  scroll.append(table);
  holder.replaceChildren(layerSums(from, to, [a, b]), scroll);
  const absent = layerAbsent(layers.device, a === b ? [a] : [a, b]);
  if (absent.length) {
    const list = make("ul", { class: "soft small" });
    list.append(...absent.map((text) => make("li", {}, text)));
    holder.append(list);
  }
}

function fillModels() {
  const built = report.built[layers.device];
  const ids = Object.keys(built).sort((a, b) => Number(a.slice(1)) - Number(b.slice(1)));
  const prefer = { from: report.given[layers.device], to: report.take[layers.device] };
  for (const which of ["from", "to"]) {
    const select = byId(`layer-${which}`);
    select.replaceChildren(...ids.map((id) => {
      const named = report.devices[layers.device].named[id];
      const caption = built[id].caption.slice(0, 48);
      return make("option", { value: id }, `${id}${named ? ` (${named})` : ""} ${caption}`);
    }));
    select.value = ids.includes(prefer[which]) ? prefer[which] : ids[which === "from" ? 0 : ids.length - 1] ?? "";
  }
}

function startLayers() {
  const known = report.built.map((built) => Object.keys(built).length);
  if (!report.layers || !known.some((count) => count > 1)) {
    byId("layer-found").firstElementChild.textContent = "The layers of these models were not read: this study holds nothing to compare.";
    return;
  }
  layers.device = known.findIndex((count) => count > 1);
  const device = byId("layer-device");
  if (device) {
    [...device.options].forEach((option, place) => { option.disabled = known[place] < 2; });
    device.value = String(layers.device);
    device.addEventListener("change", () => {
      layers.device = Number(device.value);
      fillModels();
      showLayers();
    });
  }
  fillModels();
  for (const name of ["layer-from", "layer-to", "layer-all"]) byId(name).addEventListener("change", showLayers);
  byId("layer-controls").hidden = false;
  showLayers();
}
