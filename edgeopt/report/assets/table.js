// Tables that sort, hide what a filter leaves out, and hand out what is shown.
function sortKey(table, row, column) {
  const head = table.tHead.rows[0].cells[column];
  const cell = row.cells[column];
  const candidates = table.closest(".candidates");
  const key = head.dataset.key;
  if (candidates && key === "id") return Number(row.dataset.id.slice(1));
  if (candidates && key in report.axes) {
    const device = Number(candidates.dataset.device);
    const index = report.devices[device].place.get(row.dataset.id);
    return index === undefined ? null : valueOf(device, key, index);
  }
  if (cell.dataset.sort) return Number(cell.dataset.sort);
  const text = cell.textContent.trim();
  return text === "" ? null : text;
}

function sortTable(table, column) {
  const body = table.tBodies[0];
  const heads = table.tHead.rows[0].cells;
  const down = heads[column].getAttribute("aria-sort") === "ascending";
  for (const head of heads) head.removeAttribute("aria-sort");
  heads[column].setAttribute("aria-sort", down ? "descending" : "ascending");
  const sign = down ? -1 : 1;
  const rows = [...body.rows].map((row) => [sortKey(table, row, column), row]);
  rows.sort(([a], [b]) => {
    // What is absent stays last, whichever way.
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a === "number" && typeof b === "number") return sign * (a - b);
    return sign * String(a).localeCompare(String(b), "en", { numeric: true });
  });
  body.append(...rows.map(([, row]) => row));
}

function startSorting(table) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = make("button", { type: "button" }, head.textContent);
    head.replaceChildren(button);
    button.addEventListener("click", () => sortTable(table, column));
  });
}

// The rows that are shown, in their order, as objects with numbers in SI units.
function shownRows(device) {
  const found = report.devices[device];
  return [...rowsOf(device)].filter((row) => !row.hidden).map((row) => {
    const { id } = row.dataset;
    const made = {
      device: found.name,
      id,
      what: row.cells[1].textContent.trim(),
      standing: row.cells[2].textContent,
    };
    const index = found.place.get(id);
    for (const [name, { column }] of Object.entries(report.axes)) {
      const [values, lows, highs] = found.values[name];
      made[column] = index === undefined ? null : values[index];
      if (lows || highs) {
        made[`${column}_low`] = index === undefined ? null : lows[index];
        made[`${column}_high`] = index === undefined ? null : highs[index];
      }
    }
    return made;
  });
}

function asCsv(rows) {
  const names = [...new Set(rows.flatMap(Object.keys))];
  const cell = (value) => {
    if (value === null || value === undefined) return "";
    if (typeof value === "number") return String(value);
    // No text that a spreadsheet would run as a formula.
    const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const lines = rows.map((row) => names.map((name) => cell(row[name])).join(","));
  return `${[names.join(","), ...lines].join("\n")}\n`;
}

function asJson(device, rows) {
  const ranges = Object.fromEntries([...filter.ranges].map(([axis, ends]) =>
    [report.axes[axis].column, ends.map((end) => (Number.isFinite(end) ? end : null))]));
  const asked = { ranges, text: filter.text, only_front: filter.onlyFront };
  const { name } = report.devices[device];
  return `${JSON.stringify({ study: report.study, device: name, shown: asked, candidates: rows }, null, 2)}\n`;
}

function handOut(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

function countShown(kept) {
  let all = 0;
  let left = 0;
  for (const part of document.querySelectorAll(".candidates")) {
    const device = Number(part.dataset.device);
    const rows = [...rowsOf(device)];
    for (const row of rows) row.hidden = kept[device] !== null && !kept[device][row.dataset.id];
    const shown = rows.filter((row) => !row.hidden).length;
    part.querySelector(".count").textContent = `${shown} of ${rows.length} shown`;
    all += rows.length;
    left += shown;
  }
  byId("shown").textContent = `${left} of ${all} candidates shown`;
}

function startTables() {
  document.querySelectorAll("table.sortable").forEach(startSorting);
  for (const part of document.querySelectorAll(".candidates")) {
    const device = Number(part.dataset.device);
    const name = `${report.study}-${report.devices[device].name}`;
    part.querySelector(".downloads").hidden = false;
    part.querySelector(".csv").addEventListener("click", () =>
      handOut(`${name}.csv`, "text/csv", asCsv(shownRows(device))));
    part.querySelector(".json").addEventListener("click", () =>
      handOut(`${name}.json`, "application/json", asJson(device, shownRows(device))));
    part.querySelector("tbody").addEventListener("click", (event) => {
      const row = event.target.closest("tr");
      if (row && !getSelection().toString()) looking.at(device, row.dataset.id);
    });
  }
  filter.watchers.push(countShown);
  byId("find").addEventListener("input", (event) => {
    filter.text = event.target.value.trim().toLowerCase();
    filter.changed();
  });
  byId("only-front").addEventListener("change", (event) => {
    filter.onlyFront = event.target.checked;
    filter.changed();
  });
  byId("clear").addEventListener("click", () => {
    filter.ranges.clear();
    filter.text = "";
    filter.onlyFront = false;
    byId("find").value = "";
    byId("only-front").checked = false;
    filter.changed();
  });
  byId("filters").hidden = false;
}
