import assert from "node:assert/strict";
import { createAdminApiClient, createAdminRestApiClient } from "@shopify/admin-api-client";

// The client has the name of a shop, and a setting for the function that makes its requests.
const settings = (base, token) => ({
  storeDomain: "acme.myshopify.com", apiVersion: "2026-10", accessToken: token, isTesting: true,
  customFetchApi: (url, init) => fetch(String(url).replace("https://acme.myshopify.com", `${base}/shopify@acme.myshopify.com`), init),
});
const cost = { requestedQueryCost: 12, actualQueryCost: 3, throttleStatus: { maximumAvailable: 2000, currentlyAvailable: 1988, restoreRate: 100 } };
const api = "/admin/api/2026-10";
const list = (name) => (call) => {
  const page = Number(call.query.get("page_info") ?? 1);
  return { headers: page < 3 ? { link: `<https://acme.myshopify.com${call.path}?limit=1&page_info=${page + 1}>; rel="next"` } : {}, body: { [name]: [{ id: page }] } };
};

async function all(client, path) {
  let n = 0, answer = await client.get(path, { searchParams: { limit: 1 } });
  for (;;) {
    n += (await answer.json())[path].length;
    const next = /<([^>]+)>; rel="next"/.exec(answer.headers.get("link") ?? "");
    if (!next) return n;
    // As @shopify/shopify-api does, which takes the query of the address.
    answer = await client.get(path, { searchParams: Object.fromEntries(new URL(next[1]).searchParams) });
  }
}

export default {
  sdk: "@shopify/admin-api-client",
  account: "acme",
  hosts: ["*.myshopify.com"],
  key: ["x-shopify-access-token", "shpat_the-real-key-of-shopify"],
  base: "customFetchApi",
  answers: [
    [`POST ${api}/graphql.json`, (call) => {
      const page = Number(call.json.variables?.after ?? 1);
      const nodes = { nodes: [{ id: page }], pageInfo: { hasNextPage: page < 3, endCursor: String(page + 1) } };
      return { body: { data: { products: nodes, orders: nodes, customers: nodes, shop: { name: "acme" }, productUpdate: { product: { id: 1 } } }, extensions: { cost } } };
    }],
    [`GET ${api}/products.json`, list("products")],
    [`GET ${api}/orders.json`, list("orders")],
    [`POST ${api}/products.json`, { product: { id: 1 } }],
    [`PUT ${api}/products/1.json`, { product: { id: 1 } }],
    [`DELETE ${api}/products/1.json`, {}],
    [`GET ${api}/shop.json`, { shop: { id: 1 } }],
  ],
  calls(base, token) {
    const client = createAdminApiClient(settings(base, token));
    const rest = createAdminRestApiClient(settings(base, token));
    const list = (name) => [`request ${name}`, 3, async () => {
      let n = 0;
      for (let after; ; ) {
        const { data, errors } = await client.request(`query($after: String) { ${name}(first: 1, after: $after) { nodes { id } pageInfo { hasNextPage endCursor } } }`, { variables: { after } });
        assert.equal(errors, undefined);
        n += data[name].nodes.length;
        after = data[name].pageInfo.endCursor;
        if (!data[name].pageInfo.hasNextPage) break;
      }
      assert.equal(n, 3);
    }];
    return [
      list("products"), list("orders"), list("customers"),
      ["request shop", 1, async () => assert.equal((await client.request("{ shop { name } }")).data.shop.name, "acme")],
      ["request productUpdate", 1, async () => assert.equal((await client.request("mutation { productUpdate { product { id } } }")).data.productUpdate.product.id, 1)],
      ["rest.get products", 3, async () => assert.equal(await all(rest, "products"), 3)],
      ["rest.get orders", 3, async () => assert.equal(await all(rest, "orders"), 3)],
      ["rest.get shop", 1, async () => assert.equal((await (await rest.get("shop")).json()).shop.id, 1)],
      ["rest.post products", 1, async () => assert.equal((await (await rest.post("products", { data: { product: {} } })).json()).product.id, 1)],
      ["rest.put products/1", 1, async () => assert.equal((await (await rest.put("products/1", { data: {} })).json()).product.id, 1)],
      ["rest.delete products/1", 1, async () => assert.equal((await rest.delete("products/1")).status, 200)],
    ];
  },
  refusal: {
    answer: { status: 200, body: { errors: [{ message: "Throttled", extensions: { code: "THROTTLED" } }], extensions: { cost: { ...cost, actualQueryCost: null, throttleStatus: { maximumAvailable: 2000, currentlyAvailable: 5, restoreRate: 100 } } } } },
    call: async (base, token) => {
      const { errors } = await createAdminApiClient(settings(base, token)).request("{ shop { name } }");
      if (errors) throw errors;
    },
    // The client gives errors in place of throwing them.
    check(errors) {
      assert.ok(errors.networkStatusCode === 429 || errors.graphQLErrors?.[0].extensions.code === "THROTTLED", JSON.stringify(errors));
    },
  },
};
