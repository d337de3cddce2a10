// A page that holds its own data; the report in it is for readers without script.
const text = (id) => document.getElementById(id).textContent;
const columns = Uint8Array.from(atob(text("columns")), (c) => c.charCodeAt(0));
await mount(document.getElementById("explorer"), JSON.parse(text("meta")), [new DataView(columns.buffer)]);
document.getElementById("report").hidden = true;
