package book

// APIKey is how a call over HTTP says whose it is.
type APIKey struct {
	Header string // that carries the key; "" if the book does not say
	Query  string // the parameter that would too, and that shows the key to whoever sees the URL
}

// apiKey reads how calls say whose they are.
func (r *reader) apiKey(t *tree) (k APIKey) {
	if t == nil || !r.sound(t, "API key", "api_key") {
		return k
	}
	header := t.get("header")
	if header == nil {
		r.fault(r.missing(t, "header", t.at), "api_key has no header; name the one that carries the key, as in {header: X-Api-Key}")
		return k
	}
	k.Header = r.header(header, "header of api_key")
	if q := t.get("query"); q != nil {
		k.Query = r.param(q, "query of api_key")
	}
	return k
}

func (k APIKey) tree() *tree {
	t := &tree{kind: isMapping, flow: true}
	if k.Header != "" {
		t.add("header", text(k.Header))
	}
	if k.Query != "" {
		t.add("query", text(k.Query))
	}
	return t
}
