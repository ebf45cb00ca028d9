// A login link holds its code behind the #, which browsers send to nobody: it is in no log and in no referrer.
"use strict";
const code = location.hash.slice(1);
if (code) {
  document.getElementById("code").value = code;
  history.replaceState(null, "", location.pathname + location.search);
}
