// The conversation on the screen: messages, tool steps, approval cards.

import { codeBlock, element, renderMarkdown } from "/static/markdown.js";

const WORDS = { approve: "Yes", always: "Always", deny: "No" };
const SAID = { approve: "You said yes.", always: "You said always: this tool is not asked about again here.", deny: "You said no. Nothing was run." };

// Characters that can make a command look like another one are shown by their number.
const visible = (text) =>
  text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g, (each) =>
    `⟨U+${each.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);

// Images are shown where the bot says that they are plain ones; everything else is a link that saves it.
function fileList(files) {
  const list = element("ul", "files");
  for (const file of files) {
    const link = element("a", "file");
    link.href = file.url;
    link.title = file.name;
    if (file.is_image) {
      const image = element("img");
      image.src = file.url;
      image.alt = file.name;
      image.loading = "lazy";
      link.target = "_blank";
      link.append(image);
    } else link.download = file.name;
    link.append(element("span", "name", visible(file.name)), element("span", "size", file.size));
    const item = element("li");
    item.append(link);
    list.append(item);
  }
  return list;
}

export class Log {
  constructor({ log, scroll, latest, typing, onApproval, onRetry }) {
    Object.assign(this, { log, scroll, latest, typing, onApproval, onRetry });
    this.clear();
    scroll.addEventListener("scroll", () => this.#showLatest(), { passive: true });
    latest.addEventListener("click", () => this.toEnd(true));
    new ResizeObserver(() => this.isAtEnd && this.toEnd()).observe(log);
  }

  clear() {
    this.messages = new Map();
    this.approvals = new Map();
    this.steps = new Map();
    this.stepList = null;
    this.lastReply = "";
    this.isAtEnd = true;
    this.log.replaceChildren();
    this.setTyping(false);
  }

  get isEmpty() {
    return this.log.childElementCount === 0;
  }

  // With `keepsUnsent`, messages that have not reached the bot stay: the history does not hold them.
  showHistory(history, keepsUnsent = false) {
    const unsent = keepsUnsent ? [...this.log.querySelectorAll(".sending, .unsent")] : [];
    this.clear();
    for (const turn of history.turns) {
      if (turn.user_input !== null) this.addOwn(turn.user_input);
      for (const call of turn.tool_calls) this.step(`${turn.number}:${this.steps.size}`, call.name, call.ok);
      this.stepList = null;
      for (const sent of turn.messages) this.addReply(sent.message_id, sent.text, "", false, sent.files);
      if (turn.response) this.addReply(turn.message_id, turn.response, turn.state === "failed" ? "error" : "");
      else if (turn.state === "interrupted") this.#append(element("p", "note", "Stopped."));
    }
    const open = history.pending_approval;
    if (open) {
      const card = this.#approvalCard(open.request_id, open.may_always ? ["approve", "always", "deny"] : ["approve", "deny"]);
      card.body.append(element("p", "", `Approval needed: ${open.tool_name}`));
      if (open.description) card.body.append(element("p", "", open.description));
      card.body.append(codeBlock(visible(open.parameters), open.tool_name));
    }
    for (const box of unsent) this.#append(box);
    this.toEnd(true);
  }

  addOwn(text, key = null) {
    const box = element("article", "message own");
    box.setAttribute("aria-label", "You");
    box.append(element("div", "text", text));
    if (key) this.messages.set(key, box);
    this.stepList = null;
    this.#append(box);
    this.toEnd(true);
    return box;
  }

  ownFailed(box, reason, retry) {
    box.classList.add("unsent");
    const note = element("p", "failure", `Not sent. ${reason} `);
    const button = element("button", "plain", "Try again");
    button.type = "button";
    button.addEventListener("click", () => {
      note.remove();
      box.classList.remove("unsent");
      retry();
    });
    note.append(button);
    box.append(note);
    if (this.isAtEnd) this.toEnd();
  }

  // A finished reply, or one that is still written; the same id is the same message.
  addReply(id, text, kind = "", isDraft = false, files = []) {
    let box = id ? this.messages.get(id) : undefined;
    if (box && isDraft && !box.classList.contains("draft")) return;
    if (!box && !isDraft && id && !files.length && text === this.lastReply?.text && !this.lastReply.id) {
      this.lastReply.id = id;
      return;
    }
    if (!box) {
      box = element("article", "message");
      box.setAttribute("aria-label", "Answer");
      box.append(element("div", "text"));
      if (id) this.messages.set(id, box);
      this.stepList = null;
      this.#append(box);
    }
    box.className = `message ${kind} ${isDraft ? "draft" : ""}`.trim();
    box.setAttribute("aria-busy", String(isDraft));
    box.querySelector(".text").replaceChildren(renderMarkdown(text));
    box.querySelector(".files")?.remove();
    if (files.length) box.append(fileList(files));
    if (!isDraft) {
      this.lastReply = { id, text };
      if (kind === "error") this.#addRetry(box);
    }
    if (this.isAtEnd) this.toEnd();
  }

  #addRetry(box) {
    if (box.querySelector(".retry") || !this.onRetry) return;
    const button = element("button", "plain retry", "Try again");
    button.type = "button";
    button.addEventListener("click", () => {
      button.remove();
      this.onRetry();
    });
    box.append(button);
  }

  step(id, name, ok, detail = "") {
    let line = this.steps.get(id);
    if (!line) {
      if (!this.stepList) {
        this.stepList = element("ul", "steps");
        this.#append(this.stepList);
      }
      line = element("li");
      line.append(element("span", "mark"), element("span", "name", name), element("span", "detail"));
      this.steps.set(id, line);
      this.stepList.append(line);
    }
    const state = ok === undefined || ok === null ? "running" : ok ? "done" : "failed";
    line.dataset.state = state;
    line.querySelector(".mark").textContent = { running: "", done: "✓", failed: "✕" }[state];
    line.setAttribute("aria-label", `${name}: ${{ running: "running", done: "done", failed: "failed" }[state]}`);
    if (detail) line.querySelector(".detail").textContent = detail.split("\n", 1)[0];
    if (this.isAtEnd) this.toEnd();
  }

  // What was not seen to end is no longer running once there is an answer: steps, and the text of a stopped turn.
  endTurn() {
    for (const line of this.steps.values()) if (line.dataset.state === "running") line.dataset.state = "ended";
    for (const box of this.log.querySelectorAll(".draft")) {
      box.classList.remove("draft");
      box.setAttribute("aria-busy", "false");
    }
    this.stepList = null;
  }

  askApproval(requestId, messageId, text, actions) {
    const card = this.approvals.get(requestId) ?? this.#approvalCard(requestId, actions);
    card.body.replaceChildren(renderMarkdown(visible(text)));
    if (messageId) this.messages.set(messageId, card.box);
    if (this.isAtEnd) this.toEnd();
  }

  // The bot has edited a message: an approval question that is answered, here or elsewhere.
  amend(messageId, text) {
    const box = this.messages.get(messageId);
    if (!box) return;
    const body = box.querySelector(".body, .text");
    body.replaceChildren(renderMarkdown(visible(text)));
    box.querySelector(".choices")?.remove();
    box.classList.add("answered");
  }

  #approvalCard(requestId, actions) {
    const box = element("article", "approval");
    box.setAttribute("aria-label", "The bot asks for your consent");
    const body = element("div", "body");
    const choices = element("div", "choices");
    choices.setAttribute("role", "group");
    choices.setAttribute("aria-label", "Your answer");
    const said = element("p", "said");
    said.setAttribute("role", "status");
    for (const action of actions.length ? actions : ["approve", "deny"]) {
      const button = element("button", `choice ${action}`, WORDS[action]);
      button.type = "button";
      button.addEventListener("click", () => this.#answer({ box, choices, said }, requestId, action));
      choices.append(button);
    }
    box.append(body, choices, said);
    const card = { box, body };
    this.approvals.set(requestId, card);
    this.stepList = null;
    this.#append(box);
    return card;
  }

  async #answer({ box, choices, said }, requestId, action) {
    const buttons = [...choices.querySelectorAll("button")];
    for (const each of buttons) each.disabled = true;
    said.textContent = "Sending your answer…";
    try {
      await this.onApproval(requestId, action);
      choices.querySelector(`.${action}`)?.classList.add("chosen");
      box.classList.add("answered");
      said.textContent = SAID[action];
    } catch (error) {
      for (const each of buttons) each.disabled = false;
      said.textContent = `Your answer was not taken. ${error.message}`;
    }
  }

  setTyping(isOn, text = "Working") {
    this.typing.hidden = !isOn;
    this.typing.querySelector("em").textContent = text;
    if (isOn && this.isAtEnd) this.toEnd();
  }

  toEnd(isForced = false) {
    if (isForced) this.isAtEnd = true;
    this.scroll.scrollTop = this.scroll.scrollHeight;
    this.#showLatest();
  }

  #showLatest() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroll;
    this.isAtEnd = scrollHeight - scrollTop - clientHeight < 60;
    this.latest.hidden = this.isAtEnd;
  }

  #append(box) {
    this.log.append(box);
    if (this.isAtEnd) this.toEnd();
  }
}
