// Keeps a page up to date. The server renders; this script only puts news in their place.
"use strict";

const find = (selector, from) => (from || document).querySelector(selector);
const COLOURS = ["#2f6fde", "#d9622b", "#2a9d62", "#a04fc4", "#c23b56", "#8a7a1f", "#1f8fa8", "#6b6b6b"];
const MOST_LINES_OF_LOG = 1000;

// A browser opens six connections to a server. A page that is not looked at holds none, and a run
// that is not looked at need not render.
function follow(address, handlers) {
  let source = null;
  const open = () => {
    if (source || document.hidden) return;
    handlers.begin?.();
    source = new EventSource(address);
    for (const [name, handle] of Object.entries(handlers)) {
      if (name !== "begin") source.addEventListener(name, (event) => handle(JSON.parse(event.data), close));
    }
  };
  const close = (forGood) => {
    source?.close();
    source = null;
    if (forGood) document.removeEventListener("visibilitychange", turn);
  };
  const turn = () => (document.hidden ? close(false) : open());
  document.addEventListener("visibilitychange", turn);
  window.addEventListener("pagehide", () => close(false));
  window.addEventListener("pageshow", open);
  open();
}

function showProblem(news) {
  const banner = find("#problem");
  banner.textContent = news.text;
  banner.hidden = !news.text;
}

// Changes only the parts that differ: a link or button that is replaced while it is being pressed
// would lose the click.
function update(shown, html) {
  const fresh = document.createElement(shown.tagName === "TR" ? "tbody" : "div");
  fresh.innerHTML = html;
  const parts = [...(shown.tagName === "TR" ? fresh.firstElementChild : fresh).children];
  parts.forEach((part, place) => {
    const known = shown.children[place];
    if (!known) shown.append(part);
    else if (known.outerHTML !== part.outerHTML) known.replaceWith(part);
  });
  while (shown.children.length > parts.length) shown.lastElementChild.remove();
}

// ------------------------------------------------------------ the list of runs

function listPage() {
  const body = find("#runs tbody");
  const first = body.dataset.first === "true";
  follow("/events", {
    problem: showProblem,
    reload: () => location.reload(),
    removed: (news) => document.getElementById(`run-${news.id}`)?.remove(),
    run: (news) => {
      const known = document.getElementById(`run-${news.id}`);
      if (known) update(known, news.html);
      else if (first) {
        body.insertAdjacentHTML("afterbegin", news.html);
        find("#nothing")?.remove();
      }
    },
  });
  const button = find("#compare");
  const count = () => {
    const chosen = document.querySelectorAll("#runs input:checked").length;
    button.disabled = chosen === 0;
    button.textContent = chosen ? `Compare ${chosen}` : "Compare";
  };
  body.addEventListener("change", count);
  count();
}

// ------------------------------------------------------------ charts

// With `thousands` from 1,000 on, as the ticks of one axis share their unit.
function compact(value, thousands = 1e4) {
  const size = Math.abs(value);
  if (size >= 1e9) return `${+(value / 1e9).toPrecision(3)}G`;
  if (size >= 1e6) return `${+(value / 1e6).toPrecision(3)}M`;
  if (size >= thousands) return `${+(value / 1e3).toPrecision(3)}k`;
  if (size > 0 && size < 1e-3) return value.toExponential().length > 7 ? value.toExponential(2) : value.toExponential();
  return `${+value.toPrecision(4)}`;
}

function colours() {
  const style = getComputedStyle(document.documentElement);
  return { text: style.getPropertyValue("--muted").trim(), grid: style.getPropertyValue("--line").trim() };
}

function makeChart(holder, title, series, data, bands) {
  const look = colours();
  const axis = {
    stroke: look.text,
    grid: { stroke: look.grid, width: 1 },
    ticks: { stroke: look.grid, width: 1 },
    values: (_chart, values) => {
      const thousands = Math.max(...values.map(Math.abs)) >= 1e4 ? 1e3 : 1e4;
      return values.map((value) => (value === null ? "" : compact(value, thousands)));
    },
  };
  const size = () => ({ width: Math.max(200, holder.clientWidth), height: 220 });
  const chart = new uPlot(
    {
      title,
      ...size(),
      scales: { x: { time: false } },
      axes: [axis, { ...axis, size: 56 }],
      series: [{ label: "step", value: (_chart, value) => (value === null ? "" : compact(value)) }, ...series],
      bands: bands || [],
      legend: { show: series.length > 1 || Boolean(bands) },
      cursor: { points: { show: series.length < 10 } },
    },
    data,
    holder,
  );
  new ResizeObserver(() => chart.setSize(size())).observe(holder);
  return chart;
}

function line(label, place, more) {
  return {
    label,
    stroke: COLOURS[place % COLOURS.length],
    width: 1.5,
    spanGaps: true,
    value: (_chart, value) => (value === null || value === undefined ? "" : compact(value)),
    ...more,
  };
}

// The curves of one run, as they arrive: a chart for each tag, a line for each seed.
class Curves {
  constructor(holder) {
    this.holder = holder;
    this.tags = new Map();
    this.waiting = new Set();
  }

  clear() {
    // A stream begins again with whole curves.
    for (const tag of this.tags.values()) tag.lines = new Map();
  }

  add(points) {
    let tag = this.tags.get(points.chart);
    if (!tag) {
      const box = document.createElement("div");
      box.className = "chart";
      box.dataset.order = JSON.stringify(points.order);
      box.dataset.tag = points.chart;
      const later = [...this.holder.children].find((other) => other.dataset.order > box.dataset.order);
      this.holder.insertBefore(box, later || null);
      tag = { box, lines: new Map(), chart: null, drawn: "" };
      this.tags.set(points.chart, tag);
    }
    let known = tag.lines.get(points.line);
    if (!known) tag.lines.set(points.line, (known = { x: [], y: [] }));
    known.x.push(...points.x);
    known.y.push(...points.y);
    // Many batches arrive in one moment; one drawing shows them all.
    if (!this.waiting.size) requestAnimationFrame(() => this.draw());
    this.waiting.add(points.chart);
  }

  draw() {
    for (const name of this.waiting) {
      const tag = this.tags.get(name);
      const names = [...tag.lines.keys()];
      const tables = names.map((key) => [tag.lines.get(key).x, tag.lines.get(key).y]);
      const data = tables.length === 1 ? tables[0] : uPlot.join(tables);
      if (tag.chart && tag.drawn === names.join()) {
        tag.chart.setData(data);
        continue;
      }
      tag.chart?.destroy();
      const series = names.map((key, place) => line(key || name, place));
      tag.chart = makeChart(tag.box, name, series, data);
      tag.drawn = names.join();
    }
    this.waiting.clear();
  }
}

function bandChart(holder, lines, title) {
  const series = [];
  const bands = [];
  const tables = [];
  lines.forEach((one, place) => {
    const colour = COLOURS[place % COLOURS.length];
    const at = series.length + 1;
    series.push(line(`${one.name} (${one.seeds} seeds)`, place, { width: 2 }));
    series.push(line("", place, { width: 0, stroke: "transparent", label: `${one.name} low` }));
    series.push(line("", place, { width: 0, stroke: "transparent", label: `${one.name} high` }));
    bands.push({ series: [at + 2, at + 1], fill: `${colour}30` });
    tables.push([one.x, one.middle, one.low, one.high]);
  });
  if (!tables.length) return;
  const chart = makeChart(holder, title, series, uPlot.join(tables), bands);
  // The edges of a band are lines to the library; in the legend they would only be in the way.
  chart.root.querySelectorAll(".u-legend .u-series").forEach((entry, place) => {
    entry.hidden = place > 0 && (place - 1) % 3 > 0;
  });
}

// ------------------------------------------------------------ one run

function runPage() {
  const address = location.pathname.replace(/\/$/, "");
  const curves = new Curves(find("#curves"));
  const log = find("#log");
  log.dataset.empty = "The run has printed nothing yet.";
  const picture = find("#frames");
  const showFrames = (live) => {
    const wanted = live && !document.hidden;
    if (wanted && !picture.src) picture.src = `${address}/frames`;
    // An empty address ends the request, and with it the rendering.
    if (!wanted && picture.src) picture.removeAttribute("src");
    find("#live").hidden = !live;
  };
  let live = document.body.dataset.live === "true";
  picture.addEventListener("error", () => picture.removeAttribute("src"));
  document.addEventListener("visibilitychange", () => showFrames(live));
  window.addEventListener("pagehide", () => showFrames(false));
  showFrames(live);
  follow(`${address}/events`, {
    begin: () => {
      curves.clear();
      log.replaceChildren();
    },
    problem: showProblem,
    reload: () => location.reload(),
    run: (news) => {
      update(find("#head"), news.html);
      live = news.live;
      showFrames(live);
    },
    points: (news) => curves.add(news),
    log: (news) => {
      const atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 8;
      for (const text of news.text.replace(/\n$/, "").split("\n")) {
        const row = document.createElement("div");
        row.textContent = text;
        row.className = news.stream;
        log.append(row);
      }
      while (log.childElementCount > MOST_LINES_OF_LOG) log.firstElementChild.remove();
      if (atEnd) log.scrollTop = log.scrollHeight;
    },
    end: (_news, close) => close(true),
  });
}

// ------------------------------------------------------------ a recorded episode

function episodePage() {
  const steps = JSON.parse(find("#steps").textContent);
  const address = location.pathname.replace(/\/episodes\/.*/, "/steps/");
  const slider = find("#at");
  const button = find("#play");
  let playing = 0;
  const show = (place) => {
    const step = steps[place];
    slider.value = place;
    const picture = find("#picture");
    picture.hidden = !step.picture;
    if (step.picture) picture.src = address + step.seq;
    find("#caption").textContent =
      `step ${step.step} · action ${step.action || "—"} · reward ${compact(step.reward)} · return ${compact(step.total)}`;
    find("#mind").hidden = !step.mind;
    if (!step.mind) return;
    find("#decision").textContent = step.mind.decision;
    find("#intention").textContent = step.mind.intention;
    find("#beliefs").replaceChildren(
      ...step.mind.beliefs.map((belief) => {
        const item = document.createElement("li");
        item.textContent = belief;
        return item;
      }),
    );
  };
  const stop = () => {
    clearInterval(playing);
    playing = 0;
    button.textContent = "Play";
  };
  button.addEventListener("click", () => {
    if (playing) return stop();
    if (+slider.value >= steps.length - 1) show(0);
    button.textContent = "Stop";
    playing = setInterval(() => {
      const next = +slider.value + 1;
      if (next >= steps.length) return stop();
      show(next);
    }, 150);
  });
  slider.addEventListener("input", () => {
    stop();
    show(+slider.value);
  });
  slider.max = steps.length - 1;
  show(0);
}

const PAGES = {
  runs: listPage,
  run: runPage,
  episode: episodePage,
  compare: () => {
    const data = JSON.parse(find("#lines").textContent);
    bandChart(find("#bands"), data.lines, data.metric);
  },
};
PAGES[document.body.dataset.page]?.();
