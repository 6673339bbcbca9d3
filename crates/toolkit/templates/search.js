for (const box of document.querySelectorAll("input[type=search]")) {
  const rows = document.getElementById(box.dataset.of).tBodies[0].rows;
  box.addEventListener("input", () => {
    const text = box.value.toLowerCase();
    for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(text);
  });
}
