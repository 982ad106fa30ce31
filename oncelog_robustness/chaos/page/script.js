const tip = document.getElementById("tip");
document.addEventListener("pointermove", (event) => {
  const told = event.target.closest?.("[data-tip]")?.dataset.tip;
  tip.style.display = told ? "block" : "none";
  if (!told) return;
  tip.textContent = told;
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.min(event.clientX + 14, innerWidth - width - 8)}px`;
  tip.style.top = `${event.clientY + 18 + height > innerHeight ? event.clientY - height - 10 : event.clientY + 18}px`;
});
