// Markdown to DOM nodes. Text of the model never becomes HTML: every node is made here, from a closed set.

const FENCE = /^( {0,3})(`{3,}|~{3,})\s*([^\s`]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const QUOTE = /^ {0,3}>\s?(.*)$/;
const DIVIDER = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;
const MAX_DEPTH = 12;

export function renderMarkdown(text) {
  const fragment = document.createDocumentFragment();
  blocks(text.replace(/\r\n?/g, "\n").split("\n"), fragment, 0);
  return fragment;
}

function blocks(lines, parent, depth) {
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    if (!line.trim()) at += 1;
    else if (FENCE.test(line)) at = fence(lines, at, parent);
    else if (HEADING.test(line)) at = heading(line, at, parent);
    else if (RULE.test(line)) at = rule(at, parent);
    else if (QUOTE.test(line) && depth < MAX_DEPTH) at = quote(lines, at, parent, depth);
    else if (ITEM.test(line) && depth < MAX_DEPTH) at = list(lines, at, parent, depth);
    else if (isTable(lines, at)) at = table(lines, at, parent);
    else at = paragraph(lines, at, parent);
  }
}

function fence(lines, at, parent) {
  const [, indent, mark, language] = FENCE.exec(lines[at]);
  const close = new RegExp(`^ {0,3}\\${mark[0]}{${mark.length},}\\s*$`);
  const body = [];
  let end = at + 1;
  for (; end < lines.length && !close.test(lines[end]); end += 1) {
    body.push(lines[end].startsWith(indent) ? lines[end].slice(indent.length) : lines[end]);
  }
  parent.append(codeBlock(body.join("\n"), language));
  return end + 1;
}

export function codeBlock(text, language = "") {
  const box = element("figure", "code");
  const bar = element("figcaption");
  const copy = element("button", "copy");
  copy.type = "button";
  copy.textContent = "Copy";
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      copy.textContent = "Copied";
    } catch {
      copy.textContent = "Select and copy by hand";
    }
    setTimeout(() => (copy.textContent = "Copy"), 2000);
  });
  bar.append(element("span", "", language), copy);
  const pre = element("pre");
  pre.tabIndex = 0;
  pre.append(element("code", "", text));
  box.append(bar, pre);
  return box;
}

function heading(line, at, parent) {
  const [, marks, text] = HEADING.exec(line);
  // The page has h1 and h2 of its own.
  parent.append(inlineInto(element(`h${Math.min(marks.length + 2, 6)}`), text));
  return at + 1;
}

function rule(at, parent) {
  parent.append(element("hr"));
  return at + 1;
}

function quote(lines, at, parent, depth) {
  const inner = [];
  let end = at;
  for (; end < lines.length && QUOTE.test(lines[end]); end += 1) inner.push(QUOTE.exec(lines[end])[1]);
  const box = element("blockquote");
  blocks(inner, box, depth + 1);
  parent.append(box);
  return end;
}

function list(lines, at, parent, depth) {
  const [, indent, firstMark] = ITEM.exec(lines[at]);
  const isOrdered = /\d/.test(firstMark);
  const box = element(isOrdered ? "ol" : "ul");
  if (isOrdered && parseInt(firstMark, 10) !== 1) box.start = parseInt(firstMark, 10);
  let end = at;
  while (end < lines.length) {
    const found = ITEM.exec(lines[end]);
    if (!found || found[1].length < indent.length || found[1].length > indent.length + 1) break;
    if (/\d/.test(found[2]) !== isOrdered || RULE.test(lines[end])) break;
    const inner = [found[3]];
    const width = found[1].length + found[2].length + 1;
    for (end += 1; end < lines.length; end += 1) {
      const line = lines[end];
      const margin = line.length - line.trimStart().length;
      if (!line.trim()) {
        const next = lines.slice(end + 1).find((each) => each.trim());
        if (next === undefined || next.length - next.trimStart().length <= found[1].length) break;
        inner.push("");
      } else if (margin > found[1].length) inner.push(line.slice(Math.min(margin, width)));
      else if (ITEM.test(line) || startsBlock(line) || !lines[end - 1].trim()) break;
      else inner.push(line);
    }
    box.append(item(inner, depth));
    const next = lines.findIndex((each, index) => index >= end && each.trim());
    if (next > end && next !== -1 && ITEM.test(lines[next])) end = next;
  }
  parent.append(box);
  return end;
}

function item(lines, depth) {
  const box = element("li");
  const task = /^\[([ xX])\]\s+(.*)$/.exec(lines[0]);
  if (task) {
    box.className = "task";
    box.append(element("span", "box", task[1] === " " ? "☐" : "☑"));
    lines = [task[2], ...lines.slice(1)];
  }
  blocks(lines, box, depth + 1);
  // A tight item holds its text directly.
  const only = box.querySelector(":scope > p");
  if (only && box.querySelectorAll(":scope > p").length === 1) only.replaceWith(...only.childNodes);
  return box;
}

function isTable(lines, at) {
  return lines[at].includes("|") && at + 1 < lines.length && lines[at + 1].includes("-") && DIVIDER.test(lines[at + 1])
    && cells(lines[at]).length === cells(lines[at + 1]).length;
}

function cells(line) {
  return line.trim().replace(/^\||(?<!\\)\|$/g, "").split(/(?<!\\)\|/).map((each) => each.trim().replaceAll("\\|", "|"));
}

function table(lines, at, parent) {
  const aligns = cells(lines[at + 1]).map((each) =>
    each.startsWith(":") && each.endsWith(":") ? "center" : each.endsWith(":") ? "right" : "");
  const row = (line, tag) => {
    const box = element("tr");
    const texts = cells(line);
    aligns.forEach((align, index) => box.append(inlineInto(element(tag, align), texts[index] ?? "")));
    return box;
  };
  const head = element("thead");
  head.append(row(lines[at], "th"));
  const body = element("tbody");
  let end = at + 2;
  for (; end < lines.length && lines[end].includes("|") && lines[end].trim(); end += 1) body.append(row(lines[end], "td"));
  const box = element("table");
  box.append(head, body);
  const frame = element("div", "table");
  frame.tabIndex = 0;
  frame.append(box);
  parent.append(frame);
  return end;
}

function startsBlock(line) {
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line);
}

function paragraph(lines, at, parent) {
  const own = [lines[at]];
  let end = at + 1;
  for (; end < lines.length && lines[end].trim() && !startsBlock(lines[end]) && !ITEM.test(lines[end]); end += 1) {
    if (isTable(lines, end)) break;
    own.push(lines[end]);
  }
  parent.append(inlineInto(element("p"), own.map((each) => each.trim()).join("\n")));
  return end;
}

// Tried in this order at each place where one of them may begin.
const INLINE = [
  [/^\\([!-/:-@[-`{-~])/, (found) => found[1]],
  [/^(`+)([\s\S]*?[^`])\1(?!`)/, (found) => element("code", "", found[2].replace(/^ (.+) $/, "$1"))],
  [/^(\*\*|__)(?=\S)([\s\S]*?\S)\1/, (found, depth) => inlineInto(element("strong"), found[2], depth)],
  [/^~~(?=\S)([\s\S]*?\S)~~/, (found, depth) => inlineInto(element("s"), found[1], depth)],
  [/^\*(?=[^\s*])([\s\S]*?[^\s*])\*(?!\*)/, (found, depth) => inlineInto(element("em"), found[1], depth)],
  [/^_(?=[^\s_])([\s\S]*?[^\s_])_(?![\p{L}\p{N}_])/u, (found, depth) => inlineInto(element("em"), found[1], depth)],
  // Pictures are shown as links: loading them would tell their server that the answer was read.
  [/^!?\[((?:[^[\]\\]|\\.)*)\]\(\s*<?([^\s()<>]*(?:\([^\s()]*\)[^\s()<>]*)*)>?(?:\s+"[^"]*")?\s*\)/, link],
  [/^<((?:https?:\/\/|mailto:)[^\s<>]+)>/i, (found) => anchor(found[1], found[1])],
  [/^https?:\/\/[^\s<>"']+/i, bareLink],
  [/^\n/, () => element("br")],
];
const SPECIAL = /[\\`*_~[!<\n]|https?:\/\//i;

function inlineInto(parent, text, depth = 0) {
  let rest = text;
  let plain = "";
  const flush = () => {
    if (plain) parent.append(plain);
    plain = "";
  };
  while (rest) {
    const at = depth > MAX_DEPTH ? -1 : rest.search(SPECIAL);
    if (at === -1) {
      plain += rest;
      break;
    }
    plain += rest.slice(0, at);
    rest = rest.slice(at);
    const isInWord = rest[0] === "_" && /[\p{L}\p{N}_]$/u.test(plain);
    const hit = isInWord ? null : firstInline(rest, depth + 1);
    if (hit === null) {
      plain += rest[0];
      rest = rest.slice(1);
      continue;
    }
    flush();
    parent.append(hit.node);
    rest = rest.slice(hit.length);
  }
  flush();
  return parent;
}

function firstInline(text, depth) {
  for (const [pattern, make] of INLINE) {
    const found = pattern.exec(text.slice(0, 4000));
    if (!found) continue;
    const made = make(found, depth);
    if (made !== null) return made.length && made.node ? made : { node: made, length: found[0].length };
  }
  return null;
}

function link([, label, target], depth) {
  const address = safeAddress(target);
  if (address === null) return null;
  const box = anchorTo(address);
  inlineInto(box, label || target, Math.max(depth, MAX_DEPTH - 2));
  return box;
}

function bareLink([found]) {
  let address = found.replace(/[.,;:!?*_~]+$/, "");
  while (address.endsWith(")") && address.split(")").length > address.split("(").length) address = address.slice(0, -1);
  const node = anchor(address, address);
  return node && { node, length: address.length };
}

function anchor(text, target) {
  const address = safeAddress(target);
  if (address === null) return null;
  const box = anchorTo(address);
  box.append(text);
  return box;
}

function anchorTo(address) {
  const box = element("a");
  box.href = address;
  box.target = "_blank";
  box.rel = "noopener noreferrer nofollow";
  box.title = address;
  return box;
}

function safeAddress(target) {
  try {
    const url = new URL(target);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

export function element(tag, className = "", text = "") {
  const box = document.createElement(tag);
  if (className) box.className = className;
  if (text) box.textContent = text;
  return box;
}
