// Translates lines with TensorFlow Serving; needs Node 18 or newer.
//
//     echo "A dog runs." | node examples/clients/client.mjs localhost:8501 translation
//
// The arguments are the server's address and the name of the model. `translate` also works
// in a browser, if the server lets pages of your origin ask it (CORS).

export async function translate(server, model, texts) {
  const answer = await fetch(`http://${server}/v1/models/${model}:predict`, {
    method: "POST",
    body: JSON.stringify({ inputs: { text: texts } }),
  });
  const content = await answer.json();
  if (!answer.ok) throw new Error(content.error);
  return content.outputs.translation;
}

if (globalThis.process?.argv[1]?.endsWith("client.mjs")) {
  const { readFileSync } = await import("node:fs");
  const lines = readFileSync(0, "utf8").replace(/\n$/, "").split("\n");
  try {
    console.log((await translate(...process.argv.slice(2), lines)).join("\n"));
  } catch (error) {
    console.error(error.message);
    process.exitCode = 1;
  }
}
