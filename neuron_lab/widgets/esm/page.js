// A page that holds its own data; the report in it is for readers without script.
const text = (id) => document.getElementById(id).textContent;
const letters = atob(text("columns"));
const columns = new Uint8Array(letters.length);
for (let i = 0; i < columns.length; i++) columns[i] = letters.charCodeAt(i);
await mount(document.getElementById("explorer"), JSON.parse(text("meta")), [new DataView(columns.buffer)]);
document.getElementById("report").hidden = true;
