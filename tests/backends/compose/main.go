// Command compose says whether docker-compose.yml is what it should be: readable for the library
// that Docker Compose itself is made of, in each profile, with pinned images, ports on loopback
// only, and files that exist.
//
//	compose FILE PROFILE…
//
// The profile `default` is that of the .env file beside FILE. Prints the services of each profile.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/sirupsen/logrus"
)

// An image with a registry's path and a whole version or a digest.
var pinned = regexp.MustCompile(`^[a-z0-9./-]+:v?\d+\.\d+\.\d+$|@sha256:[0-9a-f]{64}$`)

// Warnings of the library, such as variables that are not set.
type warnings struct{ texts []string }

func (*warnings) Levels() []logrus.Level { return []logrus.Level{logrus.WarnLevel} }

func (w *warnings) Fire(entry *logrus.Entry) error {
	w.texts = append(w.texts, entry.Message)
	return nil
}

func load(file string, profile string) (*types.Project, error) {
	options := []cli.ProjectOptionsFn{
		cli.WithWorkingDirectory(filepath.Dir(file)),
		cli.WithName("relayproof"),
		// As Docker Compose does it: the .env file, and its profiles unless others are named.
		cli.WithEnvFiles(),
		cli.WithDotEnv,
	}
	if profile == "default" {
		options = append(options, cli.WithDefaultProfiles())
	} else {
		options = append(options, cli.WithDefaultProfiles(profile))
	}
	asked, err := cli.NewProjectOptions([]string{file}, options...)
	if err != nil {
		return nil, err
	}
	return asked.LoadProject(context.Background())
}

func check(project *types.Project) []error {
	var wrong []error
	say := func(service string, format string, values ...any) {
		wrong = append(wrong, fmt.Errorf("%s: %s", service, fmt.Sprintf(format, values...)))
	}
	if len(project.Services) == 0 {
		say("project", "starts nothing")
	}
	published := map[string]string{}
	for name, service := range project.Services {
		if !pinned.MatchString(service.Image) {
			say(name, "image %s is not pinned", service.Image)
		}
		for _, port := range service.Ports {
			if address := net.ParseIP(port.HostIP); address == nil || !address.IsLoopback() {
				say(name, "port %s is not on loopback", port.Published)
			}
			if other, taken := published[port.Published]; taken {
				say(name, "port %s is that of %s", port.Published, other)
			}
			published[port.Published] = name
		}
		for _, volume := range service.Volumes {
			if volume.Type == types.VolumeTypeBind {
				if _, err := os.Stat(volume.Source); err != nil {
					say(name, "%v", err)
				}
				if !volume.ReadOnly {
					say(name, "%s can be written", volume.Source)
				}
			}
		}
		for other, dependency := range service.DependsOn {
			needed, there := project.Services[other]
			if !there && dependency.Required {
				say(name, "%s is not in this profile", other)
			}
			if there && dependency.Condition == types.ServiceConditionHealthy && needed.HealthCheck == nil {
				say(name, "%s has no health check to wait for", other)
			}
		}
		if service.HealthCheck == nil && service.Restart == types.RestartPolicyUnlessStopped && !watched(project, name) {
			say(name, "nobody asks whether it is well")
		}
	}
	return wrong
}

// Whether another service's health check asks this one: for images without a shell.
func watched(project *types.Project, name string) bool {
	for _, service := range project.Services {
		if service.HealthCheck != nil && slices.ContainsFunc(service.HealthCheck.Test, func(word string) bool {
			return strings.Contains(word, "//"+name+":")
		}) {
			return true
		}
	}
	return false
}

func run(file string, profiles []string) error {
	file, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	heard := &warnings{}
	logrus.AddHook(heard)
	var wrong []error
	for _, profile := range profiles {
		project, err := load(file, profile)
		if err != nil {
			return fmt.Errorf("%s: %w", profile, err)
		}
		for _, err := range check(project) {
			wrong = append(wrong, fmt.Errorf("%s: %w", profile, err))
		}
		names := project.ServiceNames()
		slices.Sort(names)
		fmt.Printf("%s: %s\n", profile, strings.Join(names, " "))
	}
	for _, text := range heard.texts {
		wrong = append(wrong, errors.New(text))
	}
	return errors.Join(wrong...)
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: compose FILE PROFILE…")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
