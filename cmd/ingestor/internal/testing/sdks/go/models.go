package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	bedrock "github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"
	"github.com/aws/smithy-go/auth"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"google.golang.org/genai"
)

// pager is a list that asks for its pages by itself.
type pager interface {
	Next() bool
	Err() error
}

func three(all pager) error {
	n := 0
	for all.Next() {
		n++
	}
	return same(n, 3, all.Err())
}

func openaiCalls(base, token string) []call {
	client := openai.NewClient(option.WithBaseURL(base+"/openai/v1/"), option.WithAPIKey(token), option.WithMaxRetries(0))
	chat := openai.ChatCompletionNewParams{Model: "gpt-5", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hello")}}
	ask := responses.ResponseNewParams{Model: "gpt-5", Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("hello")}}
	file := func() io.Reader {
		return openai.File(strings.NewReader(strings.Repeat("A", 200001)), "a.jsonl", "application/jsonl")
	}
	return []call{
		{"Chat.Completions.New", 1, func(ctx context.Context) error {
			got, err := client.Chat.Completions.New(ctx, chat)
			if err != nil {
				return err
			}
			return same(got.Choices[0].Message.Content, "hello", nil)
		}},
		{"Chat.Completions.NewStreaming", 1, func(ctx context.Context) error {
			text, all := "", client.Chat.Completions.NewStreaming(ctx, chat)
			for all.Next() {
				for _, c := range all.Current().Choices {
					text += c.Delta.Content
				}
			}
			return same(text, "hello", all.Err())
		}},
		{"Responses.New", 1, func(ctx context.Context) error {
			got, err := client.Responses.New(ctx, ask)
			if err != nil {
				return err
			}
			return same(got.OutputText(), "hello", nil)
		}},
		{"Embeddings.New", 1, func(ctx context.Context) error {
			got, err := client.Embeddings.New(ctx, openai.EmbeddingNewParams{Model: "gpt-5", Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String("hello")}})
			if err != nil {
				return err
			}
			return same(got.Data[0].Embedding[0], 0.5, nil)
		}},
		{"Moderations.New", 1, func(ctx context.Context) error {
			_, err := client.Moderations.New(ctx, openai.ModerationNewParams{Input: openai.ModerationNewParamsInputUnion{OfString: openai.String("hello")}})
			return err
		}},
		{"Models.List", 1, func(ctx context.Context) error {
			got, err := client.Models.List(ctx)
			if err != nil {
				return err
			}
			return same(len(got.Data), 1, nil)
		}},
		{"Files.New, multipart", 1, func(ctx context.Context) error {
			got, err := client.Files.New(ctx, openai.FileNewParams{File: file(), Purpose: openai.FilePurposeBatch})
			if err != nil {
				return err
			}
			return same(got.Bytes > 200000, true, nil)
		}},
		{"Files.ListAutoPaging", 3, func(ctx context.Context) error {
			return three(client.Files.ListAutoPaging(ctx, openai.FileListParams{}))
		}},
		{"Batches.ListAutoPaging", 3, func(ctx context.Context) error {
			return three(client.Batches.ListAutoPaging(ctx, openai.BatchListParams{}))
		}},
		{"FineTuning.Jobs.ListAutoPaging", 3, func(ctx context.Context) error {
			return three(client.FineTuning.Jobs.ListAutoPaging(ctx, openai.FineTuningJobListParams{}))
		}},
		{refused, 1, func(ctx context.Context) error {
			_, err := client.Chat.Completions.New(ctx, chat)
			var own *openai.Error
			return no(err, errors.As(err, &own) && own.StatusCode == http.StatusTooManyRequests && own.Code == "rate_limit_exceeded")
		}},
	}
}

func anthropicCalls(base, token string) []call {
	client := anthropic.NewClient(anthropicoption.WithBaseURL(base+"/anthropic/"), anthropicoption.WithAPIKey(token), anthropicoption.WithMaxRetries(0))
	wanted := anthropic.MessageNewParams{Model: "claude-opus-5", MaxTokens: 100, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hello"))}}
	return []call{
		{"Messages.New", 1, func(ctx context.Context) error {
			got, err := client.Messages.New(ctx, wanted)
			if err != nil {
				return err
			}
			return same(got.Content[0].Text, "hello", nil)
		}},
		{"Messages.NewStreaming", 1, func(ctx context.Context) error {
			got, all := anthropic.Message{}, client.Messages.NewStreaming(ctx, wanted)
			for all.Next() {
				if err := got.Accumulate(all.Current()); err != nil {
					return err
				}
			}
			return same(len(got.Content), 1, all.Err())
		}},
		{"Messages.CountTokens", 1, func(ctx context.Context) error {
			got, err := client.Messages.CountTokens(ctx, anthropic.MessageCountTokensParams{Model: wanted.Model, Messages: wanted.Messages})
			if err != nil {
				return err
			}
			return same(got.InputTokens, 3, nil)
		}},
		{"Models.ListAutoPaging", 3, func(ctx context.Context) error {
			return three(client.Models.ListAutoPaging(ctx, anthropic.ModelListParams{}))
		}},
		{"Models.Get", 1, func(ctx context.Context) error {
			got, err := client.Models.Get(ctx, "claude-opus-5", anthropic.ModelGetParams{})
			if err != nil {
				return err
			}
			return same(got.ID, "claude-opus-5", nil)
		}},
		{"Messages.Batches.New", 1, func(ctx context.Context) error {
			got, err := client.Messages.Batches.New(ctx, anthropic.MessageBatchNewParams{Requests: []anthropic.MessageBatchNewParamsRequest{
				{CustomID: "a", Params: anthropic.MessageBatchNewParamsRequestParams{Model: wanted.Model, MaxTokens: 100, Messages: wanted.Messages}},
			}})
			if err != nil {
				return err
			}
			return same(got.ID, "msgbatch_1", nil)
		}},
		{"Messages.Batches.ListAutoPaging", 3, func(ctx context.Context) error {
			return three(client.Messages.Batches.ListAutoPaging(ctx, anthropic.MessageBatchListParams{}))
		}},
		{"Messages.Batches.ResultsStreaming", 1, func(ctx context.Context) error {
			n, all := 0, client.Messages.Batches.ResultsStreaming(ctx, "msgbatch_1", anthropic.MessageBatchResultsParams{})
			for all.Next() {
				n++
			}
			return same(n, 2, all.Err())
		}},
		{refused, 1, func(ctx context.Context) error {
			_, err := client.Messages.New(ctx, wanted)
			var own *anthropic.Error
			return no(err, errors.As(err, &own) && own.StatusCode == http.StatusTooManyRequests && strings.Contains(own.RawJSON(), "rate_limit_error"))
		}},
	}
}

func geminiCalls(base, token string) []call {
	client, err := genai.NewClient(context.Background(), &genai.ClientConfig{APIKey: token, Backend: genai.BackendGeminiAPI, HTTPOptions: genai.HTTPOptions{BaseURL: base + "/gemini"}})
	if err != nil {
		panic(err)
	}
	const model = "gemini-2.5-flash"
	hello := genai.Text("hello")
	return []call{
		{"Models.GenerateContent", 1, func(ctx context.Context) error {
			got, err := client.Models.GenerateContent(ctx, model, hello, nil)
			if err != nil {
				return err
			}
			return same(got.Text(), "hello", nil)
		}},
		{"Models.GenerateContentStream", 1, func(ctx context.Context) error {
			n := 0
			for _, err := range client.Models.GenerateContentStream(ctx, model, hello, nil) {
				if n++; err != nil {
					return err
				}
			}
			return same(n, 2, nil)
		}},
		{"Models.CountTokens", 1, func(ctx context.Context) error {
			got, err := client.Models.CountTokens(ctx, model, hello, nil)
			if err != nil {
				return err
			}
			return same(got.TotalTokens, 3, nil)
		}},
		{"Models.EmbedContent", 1, func(ctx context.Context) error {
			got, err := client.Models.EmbedContent(ctx, "gemini-embedding-001", hello, nil)
			if err != nil {
				return err
			}
			return same(got.Embeddings[0].Values[0], 0.5, nil)
		}},
		{"Models.All", 3, func(ctx context.Context) error {
			n := 0
			for _, err := range client.Models.All(ctx) {
				if n++; err != nil {
					return err
				}
			}
			return same(n, 3, nil)
		}},
		{"Models.Get", 1, func(ctx context.Context) error {
			got, err := client.Models.Get(ctx, model, nil)
			if err != nil {
				return err
			}
			return same(got.Name, "models/"+model, nil)
		}},
		{"Files.Upload, resumable", 3, func(ctx context.Context) error {
			got, err := client.Files.Upload(ctx, bytes.NewReader(make([]byte, 9_000_000)), &genai.UploadFileConfig{MIMEType: "text/plain"})
			if err != nil {
				return err
			}
			return same(*got.SizeBytes, 9_000_000, nil)
		}},
		{"Files.All", 3, func(ctx context.Context) error {
			n := 0
			for _, err := range client.Files.All(ctx) {
				if n++; err != nil {
					return err
				}
			}
			return same(n, 3, nil)
		}},
		{"Caches.Create", 1, func(ctx context.Context) error {
			got, err := client.Caches.Create(ctx, model, &genai.CreateCachedContentConfig{Contents: hello})
			if err != nil {
				return err
			}
			return same(got.Name, "cachedContents/1", nil)
		}},
		{"Caches.All", 3, func(ctx context.Context) error {
			n := 0
			for _, err := range client.Caches.All(ctx) {
				if n++; err != nil {
					return err
				}
			}
			return same(n, 3, nil)
		}},
		{refused, 1, func(ctx context.Context) error {
			_, err := client.Models.GenerateContent(ctx, model, hello, nil)
			var own genai.APIError
			return no(err, errors.As(err, &own) && own.Code == http.StatusTooManyRequests && own.Status == "RESOURCE_EXHAUSTED")
		}},
	}
}

// unsigned signs no call.
type unsigned struct{}

func (unsigned) ResolveAuthSchemes(context.Context, *bedrockruntime.AuthResolverParameters) ([]*auth.Option, error) {
	return []*auth.Option{{SchemeID: auth.SchemeIDAnonymous}}, nil
}

func bedrockCalls(base, token string) []call {
	client := bedrockruntime.New(bedrockruntime.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(base + "/bedrock"), RetryMaxAttempts: 1,
		// This SDK sends a token over HTTPS only.
		AuthSchemeResolver: unsigned{}, HTTPClient: &http.Client{Transport: bearer(token)},
	})
	model := aws.String("anthropic.claude-sonnet-5-v1:0")
	profile := aws.String("arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-5-v1:0")
	messages := []bedrock.Message{{Role: bedrock.ConversationRoleUser, Content: []bedrock.ContentBlock{&bedrock.ContentBlockMemberText{Value: "hello"}}}}
	most := &bedrock.InferenceConfiguration{MaxTokens: aws.Int32(100)}
	body := []byte(`{"max_tokens":10,"messages":[]}`)
	converse := func(model *string) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			got, err := client.Converse(ctx, &bedrockruntime.ConverseInput{ModelId: model, Messages: messages, InferenceConfig: most})
			if err != nil {
				return err
			}
			return same(*got.Usage.TotalTokens, 2, nil)
		}
	}
	return []call{
		{"Converse", 1, converse(model)},
		{"Converse of an inference profile", 1, converse(profile)},
		{"ConverseStream", 1, func(ctx context.Context) error {
			got, err := client.ConverseStream(ctx, &bedrockruntime.ConverseStreamInput{ModelId: model, Messages: messages, InferenceConfig: most})
			if err != nil {
				return err
			}
			n := 0
			for range got.GetStream().Events() {
				n++
			}
			return same(n, 4, got.GetStream().Err())
		}},
		{"InvokeModel", 1, func(ctx context.Context) error {
			got, err := client.InvokeModel(ctx, &bedrockruntime.InvokeModelInput{ModelId: model, Body: body})
			if err != nil {
				return err
			}
			return same(strings.Contains(string(got.Body), "hello"), true, nil)
		}},
		{"InvokeModelWithResponseStream", 1, func(ctx context.Context) error {
			got, err := client.InvokeModelWithResponseStream(ctx, &bedrockruntime.InvokeModelWithResponseStreamInput{ModelId: model, Body: body})
			if err != nil {
				return err
			}
			n := 0
			for range got.GetStream().Events() {
				n++
			}
			return same(n, 2, got.GetStream().Err())
		}},
		{"CountTokens", 1, func(ctx context.Context) error {
			got, err := client.CountTokens(ctx, &bedrockruntime.CountTokensInput{ModelId: model, Input: &bedrock.CountTokensInputMemberConverse{Value: bedrock.ConverseTokensRequest{Messages: messages}}})
			if err != nil {
				return err
			}
			return same(*got.InputTokens, 3, nil)
		}},
		{"ApplyGuardrail", 1, func(ctx context.Context) error {
			_, err := client.ApplyGuardrail(ctx, &bedrockruntime.ApplyGuardrailInput{
				GuardrailIdentifier: aws.String("g"), GuardrailVersion: aws.String("1"), Source: bedrock.GuardrailContentSourceInput,
				Content: []bedrock.GuardrailContentBlock{&bedrock.GuardrailContentBlockMemberText{Value: bedrock.GuardrailTextBlock{Text: aws.String("hello")}}},
			})
			return err
		}},
		{"ListAsyncInvokes", 3, func(ctx context.Context) error {
			n := 0
			for all := bedrockruntime.NewListAsyncInvokesPaginator(client, nil); all.HasMorePages(); n++ {
				if _, err := all.NextPage(ctx); err != nil {
					return err
				}
			}
			return same(n, 3, nil)
		}},
		{refused, 1, func(ctx context.Context) error {
			_, err := client.Converse(ctx, &bedrockruntime.ConverseInput{ModelId: model, Messages: messages})
			var own *bedrock.ThrottlingException
			return no(err, errors.As(err, &own))
		}},
	}
}
