// Official Node SDKs: each job is one call in the SDK's plain loop. Input and output as replay.py's.
import OpenAI from "openai";
import Anthropic from "@anthropic-ai/sdk";

const AT_A_TIME = 6;
const messages = [{ role: "user", content: "Say hello." }];

async function openaiChat(job, text) {
  const client = new OpenAI({ baseURL: job.base, apiKey: "sk-test", maxRetries: 0 });
  const body = { model: job.model, messages, stream: job.stream };
  if (job.max_tokens) body.max_tokens = job.max_tokens;
  if (job.stream && job.usage) body.stream_options = { include_usage: true };
  const answer = await client.chat.completions.create(body);
  if (!job.stream) {
    text.push(answer.choices[0].message.content);
    return answer.choices[0].finish_reason;
  }
  let finish = null;
  for await (const chunk of answer) {
    for (const choice of chunk.choices ?? []) {
      text.push(choice.delta?.content ?? "");
      finish = choice.finish_reason || finish;
    }
  }
  return finish;
}

async function openaiResponses(job, text) {
  const client = new OpenAI({ baseURL: job.base, apiKey: "sk-test", maxRetries: 0 });
  const body = { model: job.model, input: "Say hello.", stream: job.stream };
  if (job.max_tokens) body.max_output_tokens = job.max_tokens;
  const answer = await client.responses.create(body);
  if (!job.stream) {
    text.push(answer.output_text);
    return answer.status;
  }
  let finish = null;
  for await (const event of answer) {
    if (event.type === "response.output_text.delta") text.push(event.delta);
    if (["response.completed", "response.failed", "response.incomplete"].includes(event.type)) finish = event.type;
  }
  return finish;
}

async function anthropicMessages(job, text) {
  const client = new Anthropic({ baseURL: job.base, apiKey: "sk-test", maxRetries: 0 });
  const answer = await client.messages.create({ model: job.model, messages, stream: job.stream, max_tokens: job.max_tokens ?? 1024 });
  if (!job.stream) {
    for (const block of answer.content) text.push(block.text);
    return answer.stop_reason;
  }
  let finish = null;
  for await (const event of answer) {
    if (event.type === "content_block_delta" && event.delta.type === "text_delta") text.push(event.delta.text);
    if (event.type === "message_delta") finish = event.delta.stop_reason ?? finish;
  }
  return finish;
}

const calls = { "openai-chat": openaiChat, "openai-responses": openaiResponses, "anthropic-messages": anthropicMessages };

async function call(job, limit) {
  const text = [];
  const work = calls[job.protocol](job, text).then(
    (finish) => ({ answer: "accepts", finish }),
    // A name of their own is on the constructor where the error itself says only "Error".
    (error) => ({ answer: `raises ${error?.constructor?.name ?? typeof error}`, why: String(error).slice(0, 300) }),
  );
  let timer;
  const late = new Promise((resolve) => { timer = setTimeout(() => resolve({ answer: "hangs" }), limit * 1000); });
  const said = await Promise.race([work, late]);
  clearTimeout(timer);
  return { id: job.id, stream: job.stream, text: text.join(""), ...said };
}

let input = "";
for await (const piece of process.stdin) input += piece;
const asked = JSON.parse(input);
const jobs = asked.jobs.values();
async function worker() {
  for (const job of jobs) process.stdout.write(JSON.stringify(await call(job, asked.limit_s)) + "\n");
}
await Promise.all(Array.from({ length: AT_A_TIME }, worker));
process.stdout.write("", () => process.exit(0));
