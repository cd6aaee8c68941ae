// Runs before the first paint, so that a dark page does not flash white.
(function () {
  var theme = null, language = null;
  try {
    theme = localStorage.getItem("mirrormq.theme");
    language = localStorage.getItem("mirrormq.language");
  } catch (error) { /* Storage may be disabled: use the defaults. */ }
  var dark = theme === "dark" || (theme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  if (!language) language = /^zh\b/i.test(navigator.language || "") ? "zh" : "en";
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
})();
