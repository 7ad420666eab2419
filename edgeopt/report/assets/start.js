// Everything above only defines; here it begins, once the numbers are unpacked.
async function start() {
  report = JSON.parse(await unpacked("data"));
  for (const device of report.devices) {
    device.place = new Map(device.ids.map((id, index) => [id, index]));
  }
  document.documentElement.classList.add("live");
  startTables();
  startParallel();
  startLayers();
  filter.changed();
  await startExplorer();
}
// A browser without it is too old for the rest; figures and tables stand in the page anyway.
if (typeof DecompressionStream !== "undefined") start();
