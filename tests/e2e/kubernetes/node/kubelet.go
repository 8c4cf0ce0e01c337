// Package node is one node of a test's cluster: the real kubelet over a small runtime of our own, that runs a container's command as a process
// of this machine in namespaces of its own.
//
// Left out of the real kubelet are cAdvisor and the manager of cgroups: machines that run the tests have cgroups in every state. What they
// would have found out about the machine is what the test says the node has.
package node

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"

	cadvisorapi "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	kubeletapp "k8s.io/kubernetes/cmd/kubelet/app"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	cadvisortest "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	kubeletutil "k8s.io/kubernetes/pkg/kubelet/util"
	"k8s.io/kubernetes/pkg/util/oom"
)

// What a test says about a node.
type spec struct {
	name, address, bridge, kubeconfig, authority, certificate, key, root string
	labels, resources                                                    string
	port, cpus, pods                                                     int
	memory                                                               string
}

func parse(args []string) (spec, error) {
	var s spec
	flags := flag.NewFlagSet("shoal-test-node", flag.ContinueOnError)
	flags.StringVar(&s.name, "name", "", "of the node")
	flags.StringVar(&s.address, "address", "", "of the node; its pods have addresses of the same /24")
	flags.StringVar(&s.bridge, "bridge", "", "that pods are linked to")
	flags.IntVar(&s.port, "port", 0, "of the kubelet")
	flags.StringVar(&s.kubeconfig, "kubeconfig", "", "of the kubelet")
	flags.StringVar(&s.authority, "authority", "", "who signs for those that may ask this kubelet")
	flags.StringVar(&s.certificate, "certificate", "", "of the kubelet's server")
	flags.StringVar(&s.key, "key", "", "of the kubelet's server")
	flags.StringVar(&s.root, "root", "", "folder for everything")
	flags.StringVar(&s.labels, "labels", "", "NAME=VALUE,...")
	flags.StringVar(&s.resources, "resources", "", "extended resources, NAME=COUNT,...")
	flags.IntVar(&s.cpus, "cpus", 8, "how many the node says it has")
	flags.StringVar(&s.memory, "memory", "16Gi", "how much the node says it has")
	flags.IntVar(&s.pods, "pods", 240, "how many it takes at most")
	return s, flags.Parse(args)
}

// The machine is what the test says it is.
type machine struct {
	cadvisortest.Fake
	info cadvisorapi.MachineInfo
}

func (m *machine) MachineInfo() (*cadvisorapi.MachineInfo, error) {
	info := m.info
	return &info, nil
}

// Main runs the node until it is killed.
func Main(args []string) int {
	s, err := parse(args)
	if err == nil {
		err = run(context.Background(), s)
	}
	fmt.Fprintf(os.Stderr, "node %s: %v\n", s.name, err)
	return 1
}

func run(ctx context.Context, s spec) error {
	memory, err := resource.ParseQuantity(s.memory)
	if err != nil {
		return fmt.Errorf("--memory %s: %w", s.memory, err)
	}
	extended := v1.ResourceList{}
	for name, count := range pairs(s.resources) {
		quantity, err := resource.ParseQuantity(count)
		if err != nil {
			return fmt.Errorf("--resources %s=%s: %w", name, count, err)
		}
		extended[v1.ResourceName(name)] = quantity
	}
	flags, config, err := configuration(s)
	if err != nil {
		return err
	}
	server := &options.KubeletServer{KubeletFlags: *flags, KubeletConfiguration: *config}
	deps, err := kubeletapp.UnsecuredDependencies(ctx, server, utilfeature.DefaultFeatureGate)
	if err != nil {
		return err
	}
	client, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		return err
	}
	client.QPS, client.Burst = 200, 400
	kube, err := clientset.NewForConfig(client)
	if err != nil {
		return err
	}
	deps.KubeClient, deps.HeartbeatClient, deps.EventClient = kube, kube, kube.CoreV1()
	auth, reload, err := kubeletapp.BuildAuth(types.NodeName(s.name), kube, *config)
	if err != nil {
		return err
	}
	reload(ctx.Done())
	deps.Auth = auth
	deps.CAdvisorInterface = &machine{info: cadvisorapi.MachineInfo{
		NumCores: s.cpus, MemoryCapacity: uint64(memory.Value()), MachineID: s.name, SystemUUID: s.name, BootID: s.name,
	}}
	deps.ContainerManager = cm.NewStubContainerManagerWithDevicePluginResource(extended)
	deps.OOMAdjuster = oom.NewFakeOOMAdjuster()
	deps.PodStartupLatencyTracker = kubeletutil.NewPodStartupLatencyTracker()
	deps.NodeStartupLatencyTracker = kubeletutil.NewNodeStartupLatencyTracker()
	runtime, err := newRuntime(s)
	if err != nil {
		return err
	}
	deps.RemoteRuntimeService, deps.RemoteImageService = runtime, newImages()
	if err := kubeletapp.RunKubelet(ctx, server, deps); err != nil {
		return err
	}
	select {}
}

func pairs(list string) map[string]string {
	found := map[string]string{}
	for _, one := range strings.Split(list, ",") {
		if name, value, ok := strings.Cut(one, "="); ok {
			found[name] = value
		}
	}
	return found
}

// The /24 of the node, without its last number.
func subnet(address string) (string, error) {
	ip := net.ParseIP(address).To4()
	if ip == nil {
		return "", fmt.Errorf("--address %s is no IPv4 address", address)
	}
	return fmt.Sprintf("%d.%d.%d", ip[0], ip[1], ip[2]), nil
}
