import OpenAI, { AzureOpenAI } from "openai";
import { answers, general, own, refusal } from "./openai.mjs";

// AzureOpenAI puts the model, which is the name of a deployment, into the path. Programs of the
// newer API, /openai/v1, use the client of OpenAI.
const connect = (base, token) => new AzureOpenAI({ apiKey: token, baseURL: `${base}/azure-openai@acme.openai.azure.com/openai`, apiVersion: "2025-04-01-preview", maxRetries: 0 });
const newer = (base, token) => new OpenAI({ apiKey: token, baseURL: `${base}/azure-openai@acme.openai.azure.com/openai/v1`, maxRetries: 0 });

export default {
  sdk: "openai",
  account: "acme",
  hosts: ["*.openai.azure.com"],
  key: ["api-key", "the-real-key-of-azure-openai"],
  answers: [...answers("/openai/deployments/[^/]+"), ...answers("/openai"), ...answers("/openai/v1")],
  calls(base, token) {
    const older = own(connect(base, token), "my-gpt").map(([what, ...rest]) => [`AzureOpenAI ${what}`, ...rest]);
    return [...older, ...own(newer(base, token), "my-gpt"), ...general(connect(base, token))];
  },
  refusal: refusal(connect),
};
