
"use strict";
(() => {
  const MOST_ROWS = 500, MORE_ROWS = 100; // in the table at first, and added each time as one scrolls
  document.documentElement.classList.add("scripted");

  // parts that unfold: a link into one opens it, and they are printed open

  function reveal(node) {
    for (let part = node.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
  }

  const parts = [...document.querySelectorAll("main > details")];
  const all = document.createElement("button");
  all.type = "button";
  const sayAll = () => { all.textContent = parts.every((part) => part.open) ? "Close all parts" : "Open all parts"; };
  all.addEventListener("click", () => {
    const open = !parts.every((part) => part.open);
    for (const part of parts) part.open = open;
  });
  for (const part of parts) part.addEventListener("toggle", sayAll);
  sayAll();
  if (parts.length) {
    const entry = document.createElement("li");
    entry.append(all);
    document.querySelector("nav ul").append(entry);
  }

  let closed = [];
  addEventListener("beforeprint", () => {
    closed = parts.filter((part) => !part.open);
    for (const part of closed) part.open = true;
  });
  addEventListener("afterprint", () => { for (const part of closed) part.open = false; });

  // the table of items

  const table = document.getElementById("items-table");
  if (!table) {
    addEventListener("hashchange", follow);
    follow();
    return;
  }
  const found = document.getElementById("item-details"); // rows open where there is any
  const details = found ? JSON.parse(found.textContent) : { items: {} };
  const { noun, filters, words: searched } = table.dataset;
  const body = table.tBodies[0], box = table.parentElement;
  const headings = [...table.tHead.rows[0].cells];
  const columns = headings.map((heading) => heading.dataset.column);
  const titles = headings.map((heading) => heading.textContent);
  const items = [...body.rows].map((row, place) => ({
    row, place, words: row.textContent.toLowerCase(), text: (name) => textOf(row, name), values: new Map(),
  }));
  const byAddress = new Map(items.map((item) => [item.row.id, item]));
  let listed = items, appended = items.length, order = null, opened = null;

  function textOf(row, name) {
    const place = columns.indexOf(name);
    return place < 0 ? "" : row.cells[place].textContent;
  }

  function make(tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

  // sorting: numbers as numbers, what is not known last

  function valueOf(item, place) {
    if (!item.values.has(place)) {
      const text = item.row.cells[place].textContent.trim();
      let value = text.toLowerCase();
      if (headings[place].classList.contains("number")) {
        value = parseFloat(text.replace("<.", ".").replaceAll("−", "-").replaceAll(",", "").replace("∞", "Infinity"));
        if (text.startsWith("<")) value /= 2;
      }
      item.values.set(place, value);
    }
    return item.values.get(place);
  }

  const collator = new Intl.Collator("en", { numeric: true });

  function compare(first, second) {
    const one = valueOf(first, order.place), other = valueOf(second, order.place);
    if (typeof one === "string") {
      if (!one || !other) return (one ? 0 : 1) - (other ? 0 : 1) || first.place - second.place;
      return order.sign * collator.compare(one, other) || first.place - second.place;
    }
    const unknown = Number.isNaN(one) - Number.isNaN(other);
    return unknown || order.sign * (one - other) || first.place - second.place;
  }

  const buttons = headings.map((heading, place) => {
    const button = make("button", { type: "button" }, titles[place]);
    button.addEventListener("click", () => {
      order = { place, sign: order && order.place === place ? -order.sign : 1 };
      for (const other of headings) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", order.sign > 0 ? "ascending" : "descending");
      list();
    });
    return button;
  });
  const head = (contents) => headings.forEach((heading, place) => heading.replaceChildren(contents[place]));
  head(buttons);

  // searching and filtering

  const search = make("input", { type: "search", placeholder: searched });
  const tally = make("output", { "aria-live": "polite" });
  const controls = make("div", { class: "controls" }, make("label", {}, "Search", search));
  const chosen = new Map();
  for (const name of filters.split(" ").filter((column) => columns.includes(column))) {
    const values = [...new Set(items.map((item) => item.text(name)))];
    if (values.length < 2) continue;
    const options = values.map((value) => make("option", { value: `=${value}` }, value));
    const choice = make("select", {}, make("option", { value: "" }, "all"), ...options);
    choice.addEventListener("change", list);
    chosen.set(name, choice);
    controls.append(make("label", {}, titles[columns.indexOf(name)], choice));
  }
  search.addEventListener("input", list);
  controls.append(tally);
  box.before(controls);

  function matches(item, words) {
    for (const [name, choice] of chosen) if (choice.value && choice.value !== `=${item.text(name)}`) return false;
    return words.every((word) => item.words.includes(word));
  }

  function list() {
    close();
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    listed = items.filter((item) => matches(item, words));
    if (order) listed.sort(compare);
    appended = 0;
    body.replaceChildren();
    append(MOST_ROWS);
    const all = `${items.length} ${noun}${items.length === 1 ? "" : "s"}`;
    tally.textContent = listed.length === items.length ? all : `${listed.length} of ${all}`;
  }

  function append(number) {
    const rows = listed.slice(appended, appended + number).map((item) => item.row);
    body.append(...rows);
    appended += rows.length;
  }

  box.addEventListener("scroll", () => {
    if (appended < listed.length && box.scrollTop + 2 * box.clientHeight > box.scrollHeight) append(MORE_ROWS);
  }, { passive: true });
  addEventListener("beforeprint", () => {
    append(listed.length);
    head(titles); // Chromium repeats text on every page, but no buttons
  });
  addEventListener("afterprint", () => head(buttons));

  // one item: its row opens when its address is followed

  function close() {
    if (!opened) return;
    opened.sheet.remove();
    opened.item.row.classList.remove("open");
    opened.item.row.querySelector("a").removeAttribute("aria-expanded");
    opened = null;
  }

  function open(item) {
    close();
    if (!listed.includes(item)) {
      search.value = "";
      for (const choice of chosen.values()) choice.value = "";
      list();
    }
    if (!item.row.isConnected) append(listed.indexOf(item) + 1 - appended);
    const shown = headings.filter((heading) => heading.offsetParent !== null).length || headings.length;
    const link = item.row.querySelector("a");
    const sheet = make("tr", { class: "item" }, make("td", { colspan: shown }, sheetOf(item)));
    item.row.after(sheet);
    item.row.classList.add("open");
    link.setAttribute("aria-expanded", "true");
    link.focus({ preventScroll: true }); // Escape closes, Tab goes on from here
    opened = { item, sheet };
    box.scrollTop += item.row.getBoundingClientRect().top - box.getBoundingClientRect().top
      - table.tHead.getBoundingClientRect().height;
    box.scrollIntoView({ block: box.offsetHeight < innerHeight ? "nearest" : "start" });
  }

  function leave() {
    const link = opened.item.row.querySelector("a");
    close();
    history.replaceState(null, "", "#items");
    link.focus({ preventScroll: true });
  }

  body.addEventListener("click", (event) => {
    const link = event.target.closest("th > a");
    if (!link) return;
    const item = byAddress.get(link.getAttribute("href").slice(1));
    if (opened && opened.item === item) {
      event.preventDefault();
      leave();
    } else if (location.hash === link.hash) {
      open(item);
    }
  });
  box.addEventListener("keydown", (event) => { if (event.key === "Escape" && opened) leave(); });

  function sheetOf(item) {
    const found = details.items[item.row.id] || {};
    const sheet = make("div", { class: "sheet" });
    if (item.text("text")) sheet.append(make("p", {}, item.text("text")));
    const figures = make("dl", {});
    columns.forEach((name, place) => {
      const value = item.row.cells[place].textContent;
      if (["item_id", "text", "observed_shares", "answers_by_third"].includes(name) || !value || value === "–") return;
      figures.append(make("dt", {}, titles[place]), make("dd", {}, value));
    });
    const halves = make("div", { class: "halves" }, figures);
    if (found.groups && found.groups.length) halves.append(curveOf(item, found));
    sheet.append(halves);
    if (found.options) sheet.append(optionsOf(found));
    return sheet;
  }

  function curveOf(item, found) {
    const drawing = document.getElementById("curve").content.firstElementChild.cloneNode(true);
    const shape = (tag, attributes) => {
      const node = document.createElementNS(drawing.namespaceURI, tag);
      for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
      return node;
    };
    const { low, high } = details;
    const x = (theta) => (34 + 300 * (theta - low) / (high - low)).toFixed(1);
    const y = (share) => (178 - 158 * share).toFixed(1);
    const grid = drawing.querySelector(".grid");
    const label = (text, at) => {
      const node = shape("text", at);
      node.textContent = text;
      grid.append(node);
    };
    for (const share of [0, 0.25, 0.5, 0.75, 1]) {
      grid.append(shape("path", { d: `M34 ${y(share)}H334` }));
      label(`${100 * share}%`, { x: 30, y: Number(y(share)) + 3, "text-anchor": "end" });
    }
    const step = Math.max(1, Math.ceil((high - low) / 10));
    for (let theta = Math.ceil(low / step) * step; theta <= high; theta += step) {
      grid.append(shape("path", { d: `M${x(theta)} 20V178` }));
      label(String(theta).replace("-", "−"), { x: x(theta), y: 191, "text-anchor": "middle" });
    }
    drawing.querySelector(".x").textContent = `ability θ (${details.unit})`;
    if (found.curve) {
      const [slope, difficulty, guessing] = found.curve;
      const points = [];
      for (let k = 0; k <= 80; k += 1) {
        const theta = low + (high - low) * k / 80;
        points.push(`${x(theta)} ${y(guessing + (1 - guessing) / (1 + Math.exp(-slope * (theta - difficulty))))}`);
      }
      drawing.querySelector(".model").setAttribute("d", `M${points.join("L")}`);
    }
    let whiskers = "";
    for (const [theta, share, lower, upper] of found.groups) {
      whiskers += `M${x(theta / 100)} ${y(lower / 1000)}V${y(upper / 1000)}`;
      drawing.querySelector(".dots").append(shape("circle", { cx: x(theta / 100), cy: y(share / 1000), r: 3 }));
    }
    drawing.querySelector(".whiskers").setAttribute("d", whiskers);
    const caption = `Share right of ${found.groups.length} groups of respondents from low to high ability, with 95% `
      + "intervals, about the curve of the model.";
    drawing.setAttribute("aria-label", `${item.text("item_id")}: ${item.text("observed_shares")}. ${caption}`);
    return make("figure", {}, drawing, make("figcaption", {}, caption));
  }

  function optionsOf(found) {
    const percent = (share) => (share === null ? "–" : `${share}%`);
    const heads = ["Option", "Answers", "Lower", "Middle", "Upper", "Remark"];
    const rows = found.options.map(([option, key, number, low, middle, high, flags]) => make("tr", {},
      make("th", { scope: "row" }, key ? `${option} (key)` : option), make("td", { class: "number" }, String(number)),
      ...[low, middle, high].map((share) => make("td", { class: "number" }, percent(share))), make("td", {}, flags)));
    const more = found.more ? ` ${found.more} rarer ones are left out.` : "";
    return make("table", {}, make("caption", {}, `Who chose which option, by thirds of the respondents by score.${more}`),
      make("thead", {}, make("tr", {}, ...heads.map((head, k) => make("th",
        { scope: "col", class: k > 0 && k < 5 ? "number" : "words" }, head)))),
      make("tbody", {}, ...rows));
  }

  function follow() {
    const address = location.hash.slice(1);
    if (!address) return;
    const item = table && byAddress.get(address);
    const target = item ? item.row : document.getElementById(address);
    if (item) {
      reveal(table);
      open(item);
    } else if (target) {
      reveal(target);
      target.scrollIntoView();
    }
  }

  list();
  addEventListener("hashchange", follow);
  addEventListener("load", follow); // after the browser has gone to the address itself
})();
