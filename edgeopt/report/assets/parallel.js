// Parallel coordinates: a line a candidate, a rail an objective, and a range to keep on each rail.
const parallel = { height: 250, top: 46, bottom: 30, side: 92, lines: [], rails: new Map() };
const DEVICE_COLORS = ["#2a78c8", "#d98e04", "#0f8a6d", "#c4587a", "#7d6bc9", "#7d8794"];

const draw = (name, attributes = {}, text = "") => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
};

function railNames() {
  const all = Object.keys(report.axes);
  const told = all.filter((name) => report.axes[name].objective && !(name === "latency" && "ratio" in report.axes));
  const more = all.filter((name) => !told.includes(name) && name !== "latency" && !name.includes("@"));
  return [...told, ...more.slice(0, Math.max(0, 4 - told.length))].filter((name) =>
    report.devices.some((_, device) => report.devices[device].values[name][0].some((v) => v !== null)));
}

// The ends of a rail: what matters and half as much again; what lies beyond stands at the end.
function railEnds(name) {
  const all = [];
  const held = [];
  report.devices.forEach((found) => found.ids.forEach((_, index) => {
    const value = found.values[name][0][index];
    if (value === null) return;
    all.push(value);
    if (found.front[index] || found.kinds[index] === 3 || (found.kinds[index] > 3 && found.kept[index])) held.push(value);
  }));
  const [low, high] = [Math.min(...(held.length ? held : all)), Math.max(...(held.length ? held : all))];
  const room = Math.max((high - low) / 2, 0.02 * Math.abs(high), 1e-12);
  const ends = [Math.max(Math.min(...all), low - room), Math.min(Math.max(...all), high + room)];
  if (ends[0] === ends[1]) ends[1] += room;
  return { ends, beyond: [Math.min(...all) < ends[0], Math.max(...all) > ends[1]] };
}

// Where a value stands: 0 at the top, 1 at the bottom. Up is better where there is a better.
function shareOf(rail, value) {
  const share = (Math.min(Math.max(value, rail.ends[0]), rail.ends[1]) - rail.ends[0]) / (rail.ends[1] - rail.ends[0]);
  return rail.flipped ? share : 1 - share;
}

function valueAt(rail, share) {
  const along = rail.flipped ? share : 1 - share;
  return rail.ends[0] + along * (rail.ends[1] - rail.ends[0]);
}

const railY = (share) => parallel.top + share * parallel.height;

// A range from two places on a rail; an end of the rail is open, so that what lies beyond is kept.
function keepBetween(name, a, b) {
  const rail = parallel.rails.get(name);
  const [above, below] = a < b ? [a, b] : [b, a];
  if (above <= 0.001 && below >= 0.999) filter.ranges.delete(name);
  else {
    const ends = [valueAt(rail, above), valueAt(rail, below)];
    if (above <= 0.001) ends[0] = rail.flipped ? -Infinity : Infinity;
    if (below >= 0.999) ends[1] = rail.flipped ? Infinity : -Infinity;
    filter.ranges.set(name, ends[0] < ends[1] ? ends : ends.reverse());
  }
  rail.kept = [above, below];
  filter.changed();
}

function showRange(rail) {
  const [above, below] = rail.kept;
  const all = above <= 0.001 && below >= 0.999;
  rail.range.setAttribute("y", railY(above));
  rail.range.setAttribute("height", all ? 0 : Math.max(1, railY(below) - railY(above)));
  [above, below].forEach((share, which) => {
    const y = railY(share);
    const tip = which ? y + 9 : y - 9;
    rail.handles[which].setAttribute("points", `${rail.x - 8},${tip} ${rail.x + 8},${tip} ${rail.x},${y}`);
    rail.handles[which].setAttribute("aria-valuenow", Math.round(100 * (1 - share)));
    rail.handles[which].setAttribute("aria-valuetext", shownValue(rail.name, valueAt(rail, share)));
    const text = rail.texts[which];
    text.setAttribute("y", which ? y + 22 : y - 13);
    const open = which ? below >= 0.999 : above <= 0.001;
    const sign = open && rail.beyond[rail.flipped === Boolean(which) ? 1 : 0] ? (rail.flipped === Boolean(which) ? "≥ " : "≤ ") : "";
    text.textContent = sign + shownValue(rail.name, valueAt(rail, share));
  });
}

function drawRail(svg, name, x) {
  const axis = report.axes[name];
  const rail = { name, x, flipped: axis.better === "low", kept: [0, 1], ...railEnds(name) };
  const title = draw("text", { x, y: 14, "text-anchor": "middle", "font-weight": 600 }, axis.title);
  rail.range = draw("rect", { class: "range", x: x - 9, width: 18, y: railY(0), height: 0 });
  rail.handles = [0, 1].map((which) => draw("polygon", {
    class: "handle", tabindex: 0, role: "slider", "aria-orientation": "vertical",
    "aria-valuemin": 0, "aria-valuemax": 100, "aria-label": `${which ? "lower" : "upper"} end of ${axis.title}`,
  }));
  rail.texts = [0, 1].map(() => draw("text", { class: "end", x, "text-anchor": "middle" }));
  rail.strip = draw("rect", { class: "strip", x: x - 22, width: 44, y: railY(0), height: parallel.height });
  svg.append(title, draw("line", { class: "rail", x1: x, x2: x, y1: railY(0), y2: railY(1) }),
    rail.range, rail.strip, ...rail.texts, ...rail.handles);
  parallel.rails.set(name, rail);
  listenToRail(svg.ownerSVGElement, rail);
  showRange(rail);
}

function listenToRail(svg, rail) {
  const shareAt = (event) => {
    const box = svg.getBoundingClientRect();
    const y = ((event.clientY - box.top) * svg.viewBox.baseVal.height) / box.height;
    return Math.min(1, Math.max(0, (y - parallel.top) / parallel.height));
  };
  const drag = (element, begin) => element.addEventListener("pointerdown", (event) => {
    const from = begin(shareAt(event));
    element.setPointerCapture(event.pointerId);
    let moved = false;
    const move = (next) => {
      moved = true;
      keepBetween(rail.name, from, shareAt(next));
    };
    element.addEventListener("pointermove", move);
    element.addEventListener("pointerup", () => {
      element.removeEventListener("pointermove", move);
      if (!moved && element === rail.strip) keepBetween(rail.name, 0, 1);
    }, { once: true });
    event.preventDefault();
  });
  drag(rail.strip, (share) => share);
  rail.handles.forEach((handle, which) => {
    drag(handle, () => rail.kept[1 - which]);
    handle.addEventListener("keydown", (event) => {
      const by = { ArrowUp: -0.02, ArrowDown: 0.02, PageUp: -0.1, PageDown: 0.1 }[event.key];
      const ends = [...rail.kept];
      if (by) ends[which] = Math.min(1, Math.max(0, ends[which] + by));
      else if (event.key === "Home") ends[which] = which;
      else if (event.key === "Escape") ends.splice(0, 2, 0, 1);
      else return;
      event.preventDefault();
      if (ends[0] <= ends[1]) keepBetween(rail.name, ...ends);
    });
  });
}

function drawLines(svg, names) {
  const many = report.devices.length > 1;
  report.devices.forEach((found, device) => found.ids.forEach((id, index) => {
    const points = names.flatMap((name) => {
      const value = found.values[name][0][index];
      const rail = parallel.rails.get(name);
      return value === null ? [] : [`${rail.x},${railY(shareOf(rail, value)).toFixed(1)}`];
    });
    const told = found.front[index] || found.kinds[index] >= 3;
    const kind = found.kinds[index];
    const color = many ? DEVICE_COLORS[device % DEVICE_COLORS.length]
      : report.colors[kind];
    const line = draw("polyline", {
      points: points.join(" "), stroke: color,
      class: `line${told ? " told" : ""}${found.kept[index] ? "" : " hollow"}`,
    });
    parallel.lines.push({ line, device, id });
    if (told) svg.append(line);
    else svg.prepend(line);
  }));
}

function drawKey(svg, y) {
  const named = report.devices.length > 1
    ? report.devices.map((found, device) => [found.name, DEVICE_COLORS[device % DEVICE_COLORS.length]])
    : report.kinds.map((kind, place) => [kind, report.colors[place]]);
  let x = 16;
  for (const [name, color] of named) {
    svg.append(draw("line", { x1: x, x2: x + 20, y1: y - 4, y2: y - 4, stroke: color, "stroke-width": 2.5 }),
      draw("text", { class: "key", x: x + 26, y }, name));
    x += 50 + 7.2 * name.length;
  }
}

function startParallel() {
  const names = railNames();
  if (names.length < 2) return;
  byId("parallel").hidden = false;
  const room = byId("parallel-plot").clientWidth;
  const gap = Math.max(120, Math.min(420, (room - 2 * parallel.side) / (names.length - 1)));
  const width = 2 * parallel.side + gap * (names.length - 1);
  const height = parallel.top + parallel.height + parallel.bottom + 26;
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": "parallel coordinates" });
  const lines = draw("g");
  const rails = draw("g");
  svg.append(lines, rails);
  byId("parallel-plot").append(svg);
  names.forEach((name, place) => drawRail(rails, name, parallel.side + place * gap));
  drawLines(lines, names);
  drawKey(svg, height - 6);
  filter.watchers.push((kept) => {
    for (const { line, device, id } of parallel.lines) {
      line.classList.toggle("out", kept[device] !== null && !kept[device][id]);
    }
    for (const rail of parallel.rails.values()) {
      if (!filter.ranges.has(rail.name)) rail.kept = [0, 1];
      showRange(rail);
    }
  });
  looking.watchers.push((at, seen) => {
    for (const { line, device, id } of parallel.lines) line.classList.toggle("pointed", device === at && id === seen);
  });
}
