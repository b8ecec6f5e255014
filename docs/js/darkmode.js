// In place of the theme's own: that one wants the style sheets of a highlighter, which are not loaded here.
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.documentElement.setAttribute("data-bs-theme", dark.matches ? "dark" : "light");
follow();
dark.addEventListener("change", follow);
