package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"

	"github.com/google/go-github/v84/github"
	"github.com/slack-go/slack"
	"github.com/stripe/stripe-go/v84"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	"google.golang.org/api/youtube/v3"
)

func githubCalls(base, token string) []call {
	client := github.NewClient(nil).WithAuthToken(token)
	client.BaseURL, _ = url.Parse(base + "/github/")
	client.UploadURL, _ = url.Parse(base + "/github@uploads.github.com/")
	// pages counts what all pages have.
	pages := func(want int, page func(o github.ListOptions) (int, *github.Response, error)) error {
		n, o := 0, github.ListOptions{PerPage: 2}
		for {
			more, resp, err := page(o)
			if n += more; err != nil {
				return err
			}
			if o.Page = resp.NextPage; o.Page == 0 {
				return same(n, want, nil)
			}
		}
	}
	return []call{
		{"Users.Get", 1, func(ctx context.Context) error {
			got, _, err := client.Users.Get(ctx, "")
			return same(got.GetLogin(), "octocat", err)
		}},
		{"Repositories.Get", 1, func(ctx context.Context) error {
			got, _, err := client.Repositories.Get(ctx, "o", "r")
			return same(got.GetFullName(), "o/r", err)
		}},
		{"Issues.ListByRepo", 3, func(ctx context.Context) error {
			return pages(6, func(o github.ListOptions) (int, *github.Response, error) {
				got, resp, err := client.Issues.ListByRepo(ctx, "o", "r", &github.IssueListByRepoOptions{ListOptions: o})
				return len(got), resp, err
			})
		}},
		{"PullRequests.List", 3, func(ctx context.Context) error {
			return pages(6, func(o github.ListOptions) (int, *github.Response, error) {
				got, resp, err := client.PullRequests.List(ctx, "o", "r", &github.PullRequestListOptions{ListOptions: o})
				return len(got), resp, err
			})
		}},
		{"Repositories.ListCommits", 3, func(ctx context.Context) error {
			return pages(6, func(o github.ListOptions) (int, *github.Response, error) {
				got, resp, err := client.Repositories.ListCommits(ctx, "o", "r", &github.CommitsListOptions{ListOptions: o})
				return len(got), resp, err
			})
		}},
		{"Search.Issues", 3, func(ctx context.Context) error {
			return pages(3, func(o github.ListOptions) (int, *github.Response, error) {
				got, resp, err := client.Search.Issues(ctx, "x", &github.SearchOptions{ListOptions: o})
				if err != nil {
					return 0, resp, err
				}
				return len(got.Issues), resp, nil
			})
		}},
		{"Issues.Create", 1, func(ctx context.Context) error {
			got, _, err := client.Issues.Create(ctx, "o", "r", &github.IssueRequest{Title: github.Ptr("t")})
			return same(got.GetNumber(), 7, err)
		}},
		{"Issues.CreateComment", 1, func(ctx context.Context) error {
			got, _, err := client.Issues.CreateComment(ctx, "o", "r", 7, &github.IssueComment{Body: github.Ptr("b")})
			return same(got.GetID(), 8, err)
		}},
		{"Repositories.CreateFile", 1, func(ctx context.Context) error {
			got, _, err := client.Repositories.CreateFile(ctx, "o", "r", "docs/a.md", &github.RepositoryContentFileOptions{Message: github.Ptr("m"), Content: []byte("x")})
			return same(got.GetSHA(), "c", err)
		}},
		{"upload of a release asset", 1, func(ctx context.Context) error {
			path := filepath.Join(os.TempDir(), "headroom-asset")
			defer os.Remove(path)
			if err := os.WriteFile(path, make([]byte, 100000), 0o600); err != nil {
				return err
			}
			file, err := os.Open(path)
			if err != nil {
				return err
			}
			defer file.Close()
			got, _, err := client.Repositories.UploadReleaseAsset(ctx, "o", "r", 1, &github.UploadOptions{Name: "a.bin"}, file)
			return same(got.GetSize(), 100000, err)
		}},
		{refused, 1, func(ctx context.Context) error {
			_, _, err := client.Issues.Get(ctx, "o", "r", 1)
			var own *github.RateLimitError
			return no(err, errors.As(err, &own) && own.Rate.Remaining == 0)
		}},
	}
}

func slackCalls(base, token string) []call {
	// This SDK puts its token into the form, where the proxy does not look.
	client := slack.New("", slack.OptionAPIURL(base+"/slack/api/"), slack.OptionHTTPClient(&http.Client{Transport: bearer(token)}))
	// pages follows the cursors.
	pages := func(page func(cursor string) (int, string, error)) error {
		n, cursor := 0, ""
		for {
			more, next, err := page(cursor)
			if n += more; err != nil {
				return err
			}
			if cursor = next; next == "" {
				return same(n, 3, nil)
			}
		}
	}
	return []call{
		{"AuthTest", 1, func(ctx context.Context) error {
			got, err := client.AuthTestContext(ctx)
			if err != nil {
				return err
			}
			return same(got.UserID, "U1", nil)
		}},
		{"PostMessage", 1, func(ctx context.Context) error {
			_, ts, err := client.PostMessageContext(ctx, "C1", slack.MsgOptionText("hello", false))
			return same(ts, "1.2", err)
		}},
		{"UpdateMessage", 1, func(ctx context.Context) error {
			_, ts, _, err := client.UpdateMessageContext(ctx, "C1", "1.2", slack.MsgOptionText("hello", false))
			return same(ts, "1.2", err)
		}},
		{"GetConversations", 3, func(ctx context.Context) error {
			return pages(func(cursor string) (int, string, error) {
				got, next, err := client.GetConversationsContext(ctx, &slack.GetConversationsParameters{Cursor: cursor})
				return len(got), next, err
			})
		}},
		{"GetConversationHistory", 3, func(ctx context.Context) error {
			return pages(func(cursor string) (int, string, error) {
				got, err := client.GetConversationHistoryContext(ctx, &slack.GetConversationHistoryParameters{ChannelID: "C1", Cursor: cursor})
				if err != nil {
					return 0, "", err
				}
				return len(got.Messages), got.ResponseMetaData.NextCursor, nil
			})
		}},
		{"GetConversationReplies", 3, func(ctx context.Context) error {
			return pages(func(cursor string) (int, string, error) {
				got, _, next, err := client.GetConversationRepliesContext(ctx, &slack.GetConversationRepliesParameters{ChannelID: "C1", Timestamp: "1.2", Cursor: cursor})
				return len(got), next, err
			})
		}},
		{"GetUsers", 3, func(ctx context.Context) error {
			got, err := client.GetUsersContext(ctx)
			return same(len(got), 3, err)
		}},
		{"GetUserInfo", 1, func(ctx context.Context) error {
			got, err := client.GetUserInfoContext(ctx, "U1")
			if err != nil {
				return err
			}
			return same(got.ID, "U1", nil)
		}},
		{"AddReaction", 1, func(ctx context.Context) error {
			return client.AddReactionContext(ctx, "x", slack.NewRefToMessage("C1", "1.2"))
		}},
		{"upload: UploadFile", 3, func(ctx context.Context) error {
			_, err := client.UploadFileContext(ctx, slack.UploadFileParameters{Channel: "C1", Content: "hello", FileSize: 5, Filename: "a.txt"})
			return err
		}},
		{refused, 1, func(ctx context.Context) error {
			_, err := client.GetUserInfoContext(ctx, "U1")
			var own *slack.RateLimitedError
			return no(err, errors.As(err, &own) && own.RetryAfter > 0)
		}},
	}
}

func stripeCalls(base, token string) []call {
	set := &stripe.BackendConfig{URL: stripe.String(base), MaxNetworkRetries: stripe.Int64(0), LeveledLogger: &stripe.LeveledLogger{}, EnableTelemetry: stripe.Bool(false)}
	client := stripe.NewClient(token, stripe.WithBackends(&stripe.Backends{
		API: stripe.GetBackendWithConfig(stripe.APIBackend, set), Uploads: stripe.GetBackendWithConfig(stripe.UploadsBackend, set),
	}))
	one := stripe.ListParams{Limit: stripe.Int64(1)}
	return []call{
		{"Customers.List", 3, func(ctx context.Context) error {
			n := 0
			for _, err := range client.V1Customers.List(ctx, &stripe.CustomerListParams{ListParams: one}) {
				if n++; err != nil {
					return err
				}
			}
			return same(n, 3, nil)
		}},
		{"Charges.List", 3, func(ctx context.Context) error {
			n := 0
			for _, err := range client.V1Charges.List(ctx, &stripe.ChargeListParams{ListParams: one}) {
				if n++; err != nil {
					return err
				}
			}
			return same(n, 3, nil)
		}},
		{"Invoices.List", 3, func(ctx context.Context) error {
			n := 0
			for _, err := range client.V1Invoices.List(ctx, &stripe.InvoiceListParams{ListParams: one}) {
				if n++; err != nil {
					return err
				}
			}
			return same(n, 3, nil)
		}},
		{"Customers.Search", 3, func(ctx context.Context) error {
			n := 0
			for _, err := range client.V1Customers.Search(ctx, &stripe.CustomerSearchParams{SearchParams: stripe.SearchParams{Query: "email:'a'"}}) {
				if n++; err != nil {
					return err
				}
			}
			return same(n, 3, nil)
		}},
		{"Customers.Create", 1, func(ctx context.Context) error {
			got, err := client.V1Customers.Create(ctx, &stripe.CustomerCreateParams{Email: stripe.String("a@example.com")})
			if err != nil {
				return err
			}
			return same(got.ID, "cus_1", nil)
		}},
		{"Customers.Retrieve", 1, func(ctx context.Context) error {
			got, err := client.V1Customers.Retrieve(ctx, "cus_1", nil)
			if err != nil {
				return err
			}
			return same(got.ID, "cus_1", nil)
		}},
		{"PaymentIntents.Create", 1, func(ctx context.Context) error {
			got, err := client.V1PaymentIntents.Create(ctx, &stripe.PaymentIntentCreateParams{Amount: stripe.Int64(100), Currency: stripe.String("eur")})
			if err != nil {
				return err
			}
			return same(got.ID, "pi_1", nil)
		}},
		{"PaymentIntents.Confirm", 1, func(ctx context.Context) error {
			got, err := client.V1PaymentIntents.Confirm(ctx, "pi_1", nil)
			if err != nil {
				return err
			}
			return same(got.Status, stripe.PaymentIntentStatusSucceeded, nil)
		}},
		{"Refunds.Create", 1, func(ctx context.Context) error {
			got, err := client.V1Refunds.Create(ctx, &stripe.RefundCreateParams{Charge: stripe.String("ch_1")})
			if err != nil {
				return err
			}
			return same(got.ID, "re_1", nil)
		}},
		{"upload: Files.Create, multipart", 1, func(ctx context.Context) error {
			got, err := client.V1Files.Create(ctx, &stripe.FileCreateParams{Purpose: stripe.String("dispute_evidence"), FileReader: bytes.NewReader(make([]byte, 50000)), Filename: stripe.String("a.pdf")})
			if err != nil {
				return err
			}
			return same(got.Size > 50000, true, nil)
		}},
		{refused, 1, func(ctx context.Context) error {
			_, err := client.V1Customers.Retrieve(ctx, "cus_1", nil)
			var own *stripe.Error
			return no(err, errors.As(err, &own) && own.HTTPStatusCode == http.StatusTooManyRequests && own.Code == stripe.ErrorCodeRateLimit)
		}},
	}
}

func youtubeCalls(base, token string) []call {
	client, err := youtube.NewService(context.Background(), option.WithEndpoint(base+"/youtube/"), option.WithAPIKey(token))
	if err != nil {
		panic(err)
	}
	part := []string{"snippet"}
	video := &youtube.Video{Snippet: &youtube.VideoSnippet{Title: "t"}}
	return []call{
		{"Search.List", 3, func(ctx context.Context) error {
			n := 0
			err := client.Search.List(part).Q("x").Pages(ctx, func(*youtube.SearchListResponse) error { n++; return nil })
			return same(n, 3, err)
		}},
		{"Videos.List", 3, func(ctx context.Context) error {
			n := 0
			err := client.Videos.List(part).Chart("mostPopular").Pages(ctx, func(*youtube.VideoListResponse) error { n++; return nil })
			return same(n, 3, err)
		}},
		{"Channels.List", 3, func(ctx context.Context) error {
			n := 0
			err := client.Channels.List(part).ForHandle("x").Pages(ctx, func(*youtube.ChannelListResponse) error { n++; return nil })
			return same(n, 3, err)
		}},
		{"PlaylistItems.List", 3, func(ctx context.Context) error {
			n := 0
			err := client.PlaylistItems.List(part).PlaylistId("p").Pages(ctx, func(*youtube.PlaylistItemListResponse) error { n++; return nil })
			return same(n, 3, err)
		}},
		{"CommentThreads.List", 3, func(ctx context.Context) error {
			n := 0
			err := client.CommentThreads.List(part).VideoId("v").Pages(ctx, func(*youtube.CommentThreadListResponse) error { n++; return nil })
			return same(n, 3, err)
		}},
		{"VideoCategories.List", 1, func(ctx context.Context) error {
			got, err := client.VideoCategories.List(part).RegionCode("DE").Context(ctx).Do()
			if err != nil {
				return err
			}
			return same(len(got.Items), 1, nil)
		}},
		{"Playlists.Insert", 1, func(ctx context.Context) error {
			got, err := client.Playlists.Insert(part, &youtube.Playlist{Snippet: &youtube.PlaylistSnippet{Title: "t"}}).Context(ctx).Do()
			if err != nil {
				return err
			}
			return same(got.Id, "PL1", nil)
		}},
		{"upload: Videos.Insert, multipart", 1, func(ctx context.Context) error {
			got, err := client.Videos.Insert(part, video).Media(bytes.NewReader(make([]byte, 400000)), googleapi.ChunkSize(0)).Context(ctx).Do()
			if err != nil {
				return err
			}
			return same(got.Id, "v1", nil)
		}},
		{refused, 1, func(ctx context.Context) error {
			_, err := client.Videos.List(part).Id("x").Context(ctx).Do()
			var own *googleapi.Error
			return no(err, errors.As(err, &own) && len(own.Errors) > 0)
		}},
	}
}
