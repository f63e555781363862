"use strict";
// Keeps the job page up to date; when the job has ended, the page is asked for again and says all of it.
(() => {
  const place = document.getElementById("job");
  const set = (name, words) => { const e = document.getElementById(name); if (e) e.textContent = words; };
  const number = (n) => n.toLocaleString("en-US");
  const stream = new EventSource(`/v1/jobs/${place.dataset.job}/events`);
  const names = { ii: "I", length: "L" };

  stream.addEventListener("job", (event) => {
    const job = JSON.parse(event.data);
    if (["done", "failed", "cancelled"].includes(job.state)) { stream.close(); location.reload(); return; }
    const state = document.getElementById("state");
    state.textContent = job.state;
    state.className = `state ${job.state}`;
    if (!job.bounds) return;
    const { phase, lower, upper, seconds, about } = job.bounds;
    const name = names[phase] || phase;
    const words = upper === null ? `${name} ≥ ${number(lower)}`
      : lower === upper ? `${name} = ${number(lower)}` : `${number(lower)} ≤ ${name} ≤ ${number(upper)}`;
    set("bounds", words);
    set("about", `${about}, ${seconds.toFixed(1)} s`);
  });
})();
