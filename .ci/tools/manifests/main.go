// Command manifests checks files for Docker Compose and for Kubernetes against the schemas that those
// publish, and prints what each container of the program runs: a line of file, name, environment and
// arguments, quoted for a shell.
//
//	manifests swagger.json deploy/compose.yaml deploy/kubernetes.yaml
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

func main() {
	for _, file := range os.Args[2:] {
		check := compose
		if strings.HasPrefix(filepath.Base(file), "kubernetes") {
			check = kubernetes
		}
		if err := check(file); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", file, err)
			os.Exit(1)
		}
	}
}

// show prints a container.
func show(file, name string, env, args []string) {
	slices.Sort(env)
	line := append([]string{filepath.Base(file), name}, env...)
	line = append(append(line, "/ingestor"), args...)
	for i, word := range line {
		line[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	fmt.Println(strings.Join(line, " "))
}

// compose loads a file as Docker does, by the schema of the Compose Specification.
func compose(file string) error {
	options, err := cli.NewProjectOptions([]string{file})
	if err != nil {
		return err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(slices.Values(project.ServiceNames())) {
		s := project.Services[name]
		if s.Image != "ingestor" {
			continue
		}
		var env []string
		for key, value := range s.Environment {
			env = append(env, key+"="+*value)
		}
		show(file, name, env, s.Command)
	}
	return nil
}

// object has what a manifest says of its kind and its containers.
type object struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Spec       struct {
		Template    pods
		JobTemplate struct{ Spec struct{ Template pods } } `yaml:"jobTemplate"`
	}
}

type pods struct {
	Spec struct {
		Containers []struct {
			Name string
			Args []string
			Env  []struct{ Name, Value string }
		}
	}
}

// kubernetes checks every document of a file by the OpenAPI document of Kubernetes. Fields that it
// does not have are errors, as kubectl treats them.
func kubernetes(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	schemas, kinds, err := published(os.Args[1])
	if err != nil {
		return err
	}
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var node yaml.Node
		if err := decoder.Decode(&node); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		var is object
		var any map[string]any
		if err := errors.Join(node.Decode(&any), node.Decode(&is)); err != nil {
			return err
		}
		name, known := kinds[is.APIVersion+" "+is.Kind]
		if !known {
			return fmt.Errorf("there is no kind %s in %s", is.Kind, is.APIVersion)
		}
		schema, err := schemas.Compile("swagger.json#/definitions/" + name)
		if err != nil {
			return err
		}
		plain, err := json.Marshal(any)
		if err != nil {
			return err
		}
		instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(plain))
		if err != nil {
			return err
		}
		if err := schema.Validate(instance); err != nil {
			return fmt.Errorf("%s: %w", is.Kind, err)
		}
		for _, c := range append(is.Spec.Template.Spec.Containers, is.Spec.JobTemplate.Spec.Template.Spec.Containers...) {
			var env []string
			for _, e := range c.Env {
				if e.Value != "" { // else it is from a secret
					env = append(env, e.Name+"="+e.Value)
				}
			}
			show(file, c.Name, env, c.Args)
		}
	}
}

// published reads the OpenAPI document: its schemas, and which of them is which kind.
func published(path string) (*jsonschema.Compiler, map[string]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, nil, err
	}
	kinds := map[string]string{}
	for name, definition := range document.(map[string]any)["definitions"].(map[string]any) {
		d := definition.(map[string]any)
		if _, has := d["properties"]; has {
			d["additionalProperties"] = false
		}
		if d["format"] == "int-or-string" {
			delete(d, "type")
		}
		for _, kind := range asList(d["x-kubernetes-group-version-kind"]) {
			k := kind.(map[string]any)
			version := strings.TrimPrefix(fmt.Sprint(k["group"], "/", k["version"]), "/")
			kinds[version+" "+fmt.Sprint(k["kind"])] = name
		}
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft4)
	return c, kinds, c.AddResource("swagger.json", document)
}

func asList(value any) []any {
	list, _ := value.([]any)
	return list
}
