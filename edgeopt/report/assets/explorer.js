// The front of each device, drawn again by Vega for the axes that a reader chooses.
const explorer = {
  figures: [],
  shown: [],
  everything: false,
  same: false,
};

// The rows of a figure: the same columns as in the figure that stands in the page.
function figureRows(device, [across, up, shade]) {
  const found = report.devices[device];
  const scaled = (name, index) => {
    const [values, lows, highs] = found.values[name];
    const { factor } = report.axes[name];
    const of = (value, instead) => {
      const held = value ?? instead;
      return held === null || held === undefined ? null : held / factor;
    };
    return [of(values[index], null), of(lows?.[index], values[index]), of(highs?.[index], values[index])];
  };
  return found.ids.map((id, index) => {
    const [x, x_low, x_high] = scaled(across, index);
    const [y, y_low, y_high] = scaled(up, index);
    const kind = report.kinds[found.kinds[index]];
    const c = shade === "kind" ? kind : scaled(shade, index)[0];
    const label = found.named[id] ?? "";
    return { id, label, kind, front: found.front[index], kept: found.kept[index],
             x, x_low, x_high, y, y_low, y_high, c };
  });
}

// The specification of the page with other axes; `ends` are the same on all devices, or null.
function figureSpec(device, width, ends) {
  const spec = structuredClone(report.specs[explorer.shown[2] === "kind" ? "kind" : "value"]);
  const [across, up, shade] = explorer.shown;
  spec.width = width;
  spec.height = Math.max(240, Math.min(420, Math.round(width * 0.6)));
  const positions = { x: across, y: up };
  const walk = (layer) => {
    for (const [channel, name] of Object.entries(positions)) {
      const encoding = layer.encoding?.[channel];
      if (!encoding?.field) continue;
      const { title, format, better } = report.axes[name];
      const arrow = { low: " (less is better)", high: " (more is better)" }[better] ?? "";
      encoding.axis = { ...encoding.axis, title: title + arrow, format,
                        tickCount: channel === "x" ? Math.max(3, Math.round(width / 90)) : 6 };
      if (ends) encoding.scale = { zero: false, nice: false, domain: ends[channel] };
    }
    const legend = layer.encoding?.color?.legend;
    if (legend && shade !== "kind") legend.title = report.axes[shade].title;
    layer.layer?.forEach(walk);
  };
  walk(spec);
  const found = report.devices[device];
  const set = {
    ...Object.fromEntries(Object.entries(positions).flatMap(([channel, name]) => {
      const bound = found.bounds[name];
      const sign = { low: 1, high: -1 }[report.axes[name].better] ?? 0;
      return [[`${channel}_bound`, bound === undefined ? null : bound / report.axes[name].factor],
              [`${channel}_sign`, sign]];
    })),
    everything: explorer.everything,
    kept: filter.kept[device],
    pointed: looking.device === device ? looking.id ?? "" : "",
  };
  for (const param of spec.params) if (param.name in set) param.value = set[param.name];
  spec.datasets = { points: figureRows(device, explorer.shown) };
  return spec;
}

const labelled = (vega) => ({ ...vega, marks: [...vega.marks, report.labels] });

async function drawFigure(figure, ends) {
  const width = Math.max(200, Math.min(900, figure.plot.clientWidth - 92));
  const spec = figureSpec(figure.device, width, ends);
  const holder = make("div");
  // No eval: the page's policy forbids it, so Vega walks its expressions. 1: errors alone are logged.
  const options = { ast: true, renderer: "svg", actions: false, tooltip: false, logLevel: 1, patch: labelled };
  const made = await vegaEmbed(holder, spec, options);
  figure.view?.finalize();
  figure.view = made.view;
  figure.rows = spec.datasets.points.filter((row) => row.x !== null && row.y !== null);
  figure.plot.replaceChildren(holder);
}

// One drawing after the other: a second choice waits for the first.
function drawFigures() {
  explorer.drawing = (explorer.drawing ?? Promise.resolve()).then(async () => {
    for (const figure of explorer.figures) await drawFigure(figure, null);
    if (explorer.same && explorer.figures.length > 1) {
      const ends = {};
      for (const channel of ["x", "y"]) {
        const domains = explorer.figures.flatMap(({ view }) => view.scale(channel).domain());
        ends[channel] = [Math.min(...domains), Math.max(...domains)];
      }
      for (const figure of explorer.figures) await drawFigure(figure, ends);
    }
    document.documentElement.dataset.drawn = explorer.shown.join(" ");
  });
  return explorer.drawing;
}

// Where a row stands on the screen; null where it lies outside of what is drawn.
function placeOf(figure, row) {
  const area = figure.plot.querySelector(".mark-group.role-frame.root .background");
  if (!area) return null;
  const box = area.getBoundingClientRect();
  const scale = box.width / figure.view.width();
  const x = figure.view.scale("x")(row.x) * scale;
  const y = figure.view.scale("y")(row.y) * scale;
  const inside = x >= -2 && x <= box.width + 2 && y >= -2 && y <= box.height + 2;
  const kept = filter.kept[figure.device];
  return inside && (kept === null || kept[row.id]) ? [box.left + x, box.top + y] : null;
}

function nearest(figure, x, y) {
  let best = null;
  for (const row of figure.rows) {
    const place = placeOf(figure, row);
    if (!place) continue;
    const away = Math.hypot(place[0] - x, place[1] - y);
    if (away < 24 && (!best || away < best.away)) best = { row, away };
  }
  return best?.row ?? null;
}

function lookAt(figure, row) {
  if (!row) {
    card.hide();
    looking.at(figure.device, null);
    return;
  }
  const place = placeOf(figure, row);
  if (place) card.show(figure.device, row.id, ...place);
  looking.at(figure.device, row.id);
}

function step(figure, by) {
  const seen = figure.rows.filter((row) => placeOf(figure, row)).sort((a, b) => a.x - b.x || a.y - b.y);
  if (!seen.length) return;
  const now = seen.findIndex((row) => looking.device === figure.device && row.id === looking.id);
  const next = now < 0 ? (by > 0 ? 0 : seen.length - 1) : (now + by + seen.length) % seen.length;
  lookAt(figure, seen[next]);
  byId("spoken").textContent = byId("card").textContent;
}

function listenTo(figure) {
  const { plot, device } = figure;
  plot.tabIndex = 0;
  plot.setAttribute("role", "application");
  plot.setAttribute("aria-label",
    `front on ${report.devices[device].name}: arrow keys step through the candidates, Enter takes one for the difference of layers`);
  plot.addEventListener("pointermove", (event) => lookAt(figure, nearest(figure, event.clientX, event.clientY)));
  plot.addEventListener("pointerleave", () => lookAt(figure, null));
  plot.addEventListener("blur", () => lookAt(figure, null));
  plot.addEventListener("click", (event) => {
    const row = nearest(figure, event.clientX, event.clientY);
    if (row) layers.take(device, row.id);
  });
  plot.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (by) step(figure, by);
    else if (event.key === "Escape") lookAt(figure, null);
    else if (event.key === "Enter" && looking.id) layers.take(device, looking.id);
    else return;
    event.preventDefault();
  });
}

async function startExplorer() {
  if (!report.specs || !byId("vega")) return;
  document.head.append(make("script", {}, await unpacked("vega")));
  explorer.shown = report.shown.slice();
  for (const figure of document.querySelectorAll("figure.front")) {
    const plot = figure.querySelector(".plot");
    if (plot) explorer.figures.push({ plot, device: Number(figure.dataset.device) });
  }
  if (!explorer.figures.length) return;
  document.body.append(make("div", { id: "spoken", class: "skip", "aria-live": "polite" }));
  ["x", "y", "c"].forEach((channel, place) => {
    const select = byId(`axis-${channel}`);
    if (channel === "c") select.append(make("option", { value: "kind" }, "what it is"));
    for (const [name, axis] of Object.entries(report.axes)) {
      select.append(make("option", { value: name }, axis.title));
    }
    select.value = explorer.shown[place];
    select.addEventListener("change", () => {
      explorer.shown[place] = select.value;
      drawFigures();
    });
  });
  for (const name of ["everything", "same"]) {
    byId(name)?.addEventListener("change", (event) => {
      explorer[name] = event.target.checked;
      drawFigures();
    });
  }
  byId("controls").hidden = false;
  explorer.figures.forEach(listenTo);
  filter.watchers.push((kept) => {
    for (const { view, device } of explorer.figures) view?.signal("kept", kept[device]).run();
  });
  looking.watchers.push((device, id) => {
    for (const figure of explorer.figures) {
      figure.view?.signal("pointed", figure.device === device ? id ?? "" : "").run();
    }
  });
  let width = innerWidth;
  let waiting = 0;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(drawFigures, 150);
  });
  await drawFigures();
}
