// Sets light or dark before the first paint: the choice of the user, else that of the system. A classic script, so that nothing flashes.
(function () {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  function chosen() {
    try { return localStorage.getItem("berth.theme"); } catch { return null; }
  }
  function paint() {
    const now = chosen() || (dark.matches ? "dark" : "light");
    document.documentElement.dataset.theme = now;
    for (const meta of document.querySelectorAll('meta[name="theme-color"]')) meta.content = now === "dark" ? "#101113" : "#fbfbfa";
    dispatchEvent(new Event("berth-theme"));
  }
  paint();
  dark.addEventListener("change", paint);
  addEventListener("storage", (event) => { if (event.key === "berth.theme") paint(); });
  window.berthTheme = {
    paint,
    choose(name) {
      try { name ? localStorage.setItem("berth.theme", name) : localStorage.removeItem("berth.theme"); } catch { /* private mode: for this page only */ }
      document.documentElement.dataset.theme = name || (dark.matches ? "dark" : "light");
      dispatchEvent(new Event("berth-theme"));
    },
  };
})();
