// How a long session feels: how soon its end is on the screen, and whether scrolling through all of it stutters.

/** Watches from the first moment: tasks that block the page, and when the last answer was drawn. */
function watch({ token, last }) {
  sessionStorage.setItem("fastness.token", token);
  window.blocked = [];
  new PerformanceObserver((list) => {
    for (const { startTime, duration } of list.getEntries()) window.blocked.push({ startTime, duration });
  }).observe({ type: "longtask", buffered: true });
  const look = () => {
    const shown = [...document.querySelectorAll("article.agent")].at(-1)?.textContent ?? "";
    const isLive = document.querySelector(".bar .badge") && !document.querySelector("[data-link]");
    if (isLive && shown.includes(last)) requestAnimationFrame(() => { window.opened = performance.now(); });
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}

/** Goes from the end to the beginning and back, a screen and a half per frame. */
async function scroll() {
  const scroller = document.querySelector(".scroller");
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const began = performance.now();
  let [frames, slowest, before] = [0, 0, began];
  const count = (now) => {
    frames++;
    slowest = Math.max(slowest, now - before);
    before = now;
  };
  while (scroller.scrollTop > 0 || document.querySelector(".earlier")) {
    scroller.scrollTop -= 1_000;
    count(await frame());
  }
  const top = document.querySelector("article.user")?.textContent ?? "";
  while (scroller.scrollTop + scroller.clientHeight < scroller.scrollHeight - 1) {
    scroller.scrollTop += 1_000;
    count(await frame());
  }
  await new Promise((done) => setTimeout(done, 300));
  const blocked = window.blocked.filter(({ startTime }) => startTime >= began).map(({ duration }) => duration);
  return { frames, slowest, top, longest: Math.max(0, ...blocked), tasks: blocked.length };
}

async function fill(plan, turns) {
  const headers = { authorization: `Bearer ${plan.token}`, "content-type": "application/json", prefer: "wait=60" };
  const call = async (path, body) => {
    const answer = await fetch(`${plan.url}/api/v1${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return answer.json();
  };
  const { id } = await call("/sessions", {});
  for (let turn = 1; turn <= turns; turn++) await call(`/sessions/${id}/prompts`, { prompt: `question ${turn}.` });
  return id;
}

async function open(plan, person, id, turns) {
  const page = await person();
  await page.addInitScript(watch, { token: plan.token, last: `question ${turns}.` });
  await page.goto(`${plan.url}/#/s/${id}`);
  await page.waitForFunction(() => window.opened !== undefined);
  const opened = await page.evaluate(() => ({ opened: window.opened, longest: Math.max(0, ...window.blocked.map(({ duration }) => duration)) }));
  return { page, ...opened };
}

export async function bench({ plan, ask, person }) {
  const [small, large] = [await fill(plan, 1), await fill(plan, plan.messages / 2)];
  const results = { small: [], large: [], loading: [], scrolled: [] };
  for (let round = 0; round < plan.rounds; round++) {
    const bare = await open(plan, person, small, 1);
    await bare.page.context().close();
    const { page, opened, longest } = await open(plan, person, large, plan.messages / 2);
    results.small.push(bare.opened);
    results.large.push(opened);
    results.loading.push(longest);
    if (round === 0) {
      const scrolled = await page.evaluate(scroll);
      if (!scrolled.top.includes("question 1.")) throw new Error(`the beginning is not at the top: ${scrolled.top}`);
      results.scrolled.push(scrolled);
    }
    await page.context().close();
  }
  await ask("result", results);
}
