import OpenAI from "openai";
import { answers, general, own, refusal } from "./openai.mjs";

const connect = (base, token, name) => new OpenAI({ apiKey: token, baseURL: `${base}/${name}/v1`, maxRetries: 0 });

export default {
  sdk: "openai",
  hosts: ["localhost:4000"],
  key: ["authorization", "Bearer sk-the-real-key-of-a-gateway"],
  answers: answers("/v1"),
  calls: (base, token, name) => [...own(connect(base, token, name), "gpt-5"), ...general(connect(base, token, name))],
  refusal: refusal(connect),
};
