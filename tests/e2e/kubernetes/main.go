// One program that is kube-apiserver, kube-controller-manager, kube-scheduler or a node of a test's cluster, by the name it is called by.
//
// They share most of their packages, so that one link and one file on disk do for all of them.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	"shoal.test/kubernetes/node"
)

func main() {
	commands := map[string]func() *cobra.Command{
		"kube-apiserver":          apiserver.NewAPIServerCommand,
		"kube-controller-manager": controllermanager.NewControllerManagerCommand,
		"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	}
	name := filepath.Base(os.Args[0])
	if name == "shoal-test-node" {
		os.Exit(node.Main(os.Args[1:]))
	}
	command, known := commands[name]
	if !known {
		fmt.Fprintf(os.Stderr, "%s: call this program as kube-apiserver, kube-controller-manager, kube-scheduler or shoal-test-node\n", name)
		os.Exit(2)
	}
	os.Exit(cli.Run(command()))
}
