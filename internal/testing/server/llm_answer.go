package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// events is how many pieces a stream's text has.
const events = 4

// usage returns what an answer says of its cost, which a fault makes a lie.
func (s *LLM) usage(c *llmCall) json.RawMessage {
	in, out, total := fmt.Sprint(c.in), fmt.Sprint(c.out), fmt.Sprint(c.in+c.out)
	lie := map[Fault]string{Huge: "1e308", Negative: "-5", Text: `"many"`}[c.task.Fault]
	if lie != "" {
		in, out, total = lie, lie, lie
	}
	if s.o.Form == OpenAI {
		return json.RawMessage(fmt.Sprintf(`{"prompt_tokens":%s,"completion_tokens":%s,"total_tokens":%s}`, in, out, total))
	}
	return json.RawMessage(fmt.Sprintf(`{"input_tokens":%s,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":%s}`, in, out))
}

// write writes a whole answer.
func (s *LLM) write(w http.ResponseWriter, c *llmCall) {
	var text string
	stop := map[bool]string{false: "stop", true: "length"}[c.truncated]
	if s.o.Form == OpenAI {
		text = fmt.Sprintf(`{"id":"chatcmpl-1","object":"chat.completion","created":%d,"model":%q,"choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":%q}]`,
			s.clock.Now().Unix(), c.model, c.text(events), stop)
	} else {
		stop = map[bool]string{false: "end_turn", true: "max_tokens"}[c.truncated]
		text = fmt.Sprintf(`{"id":"msg_1","type":"message","role":"assistant","model":%q,"content":[{"type":"text","text":%q}],"stop_reason":%q`,
			c.model, c.text(events), stop)
	}
	if c.task.Fault == Nested {
		const deep = 5 << 20
		text += `,"nested":` + strings.Repeat("[", deep) + strings.Repeat("]", deep)
	}
	if c.task.Fault != Mute {
		text += `,"usage":` + string(s.usage(c))
	}
	text += "}\n"
	w.Header().Set("Content-Type", "application/json")
	if c.task.Fault == Cut {
		w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		_, _ = w.Write([]byte(text[:len(text)/2]))
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write([]byte(text)) // the client may have gone
}

// text returns the i-th part of an answer, or all of it.
func (c *llmCall) text(parts int64) string {
	return strings.Repeat("word ", int(c.out*parts/events))
}

// writeStream writes an answer as events, spread over its latency.
func (s *LLM) writeStream(w http.ResponseWriter, r *http.Request, c *llmCall) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	flush := func() { _ = http.NewResponseController(w).Flush() }
	say := func(event, format string, args ...any) {
		if s.o.Form == Anthropic {
			fmt.Fprintf(w, "event: %s\n", event)
		}
		fmt.Fprintf(w, "data: "+format+"\n\n", args...)
		flush()
	}
	chunk := func(rest string) {
		say("", `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":%d,"model":%q,%s}`, s.clock.Now().Unix(), c.model, rest)
	}
	if s.o.Form == OpenAI {
		chunk(`"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]`)
	} else {
		say("message_start", `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":%q,"content":[],"stop_reason":null,"usage":{"input_tokens":%d,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1}}}`, c.model, c.in)
		say("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
	}
	for i := range events {
		if s.clock.Sleep(r.Context(), c.task.Latency/events) != nil {
			return
		}
		if c.task.Fault == Cut && i == events/2 {
			panic(http.ErrAbortHandler)
		}
		if s.o.Form == OpenAI {
			chunk(fmt.Sprintf(`"choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]`, c.text(1)))
		} else {
			say("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%q}}`, c.text(1))
		}
	}
	if s.o.Form == Anthropic {
		usage := ""
		if c.task.Fault != Mute { // message_start had the input
			usage = `,"usage":` + regexp.MustCompile(`{.*"output_tokens"`).ReplaceAllString(string(s.usage(c)), `{"output_tokens"`)
		}
		say("content_block_stop", `{"type":"content_block_stop","index":0}`)
		say("message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null}%s}`, usage)
		say("message_stop", `{"type":"message_stop"}`)
		return
	}
	chunk(`"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]`)
	if c.usage && c.task.Fault != Mute {
		chunk(`"choices":[],"usage":` + string(s.usage(c)))
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
	flush()
}
