package node

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubelet/pkg/cri/streaming"
)

// The runtime of the node, as the kubelet asks for one: each container is a process of this machine.
type processes struct {
	spec       spec
	spawner    spawner
	streams    streaming.Server
	mutex      sync.Mutex
	sandboxes  map[string]*sandbox
	containers map[string]*container
	addresses  map[string]string
	subnet     string
	next       int
}

func newRuntime(s spec) (*processes, error) {
	base, err := subnet(s.address)
	if err != nil {
		return nil, err
	}
	r := &processes{
		spec: s, spawner: newSpawner(), subnet: base,
		sandboxes: map[string]*sandbox{}, containers: map[string]*container{}, addresses: map[string]string{},
	}
	return r, r.serve()
}

func (r *processes) fresh() string {
	bytes := make([]byte, 16)
	_, _ = rand.Read(bytes)
	return hex.EncodeToString(bytes)
}

func notFound(what, id string) error { return status.Errorf(codes.NotFound, "no %s %s", what, id) }

func unable(what string) error {
	return status.Errorf(codes.Unimplemented, "the runtime of test nodes does not %s", what)
}

func (r *processes) Version(context.Context, string) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{Version: "0.1.0", RuntimeName: "processes", RuntimeVersion: "0.1.0", RuntimeApiVersion: "v1"}, nil
}

func (r *processes) Status(context.Context, bool) (*runtimeapi.StatusResponse, error) {
	return &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: true}, {Type: runtimeapi.NetworkReady, Status: true},
	}}}, nil
}

func (r *processes) UpdateRuntimeConfig(context.Context, *runtimeapi.RuntimeConfig) error { return nil }

func (r *processes) RuntimeConfig(context.Context) (*runtimeapi.RuntimeConfigResponse, error) {
	return nil, unable("choose a cgroup driver")
}

func (r *processes) UpdateContainerResources(context.Context, string, *runtimeapi.ContainerResources) error {
	return unable("change limits")
}

func (r *processes) UpdatePodSandboxResources(context.Context, *runtimeapi.UpdatePodSandboxResourcesRequest) (*runtimeapi.UpdatePodSandboxResourcesResponse, error) {
	return nil, unable("change limits")
}

func (r *processes) ReopenContainerLog(context.Context, string) error {
	return unable("turn logs over")
}

func (r *processes) CheckpointContainer(context.Context, *runtimeapi.CheckpointContainerRequest) error {
	return unable("make checkpoints")
}

func (r *processes) GetContainerEvents(context.Context, chan *runtimeapi.ContainerEventResponse, func(runtimeapi.RuntimeService_GetContainerEventsClient)) error {
	return unable("tell of events")
}

func (r *processes) ContainerStats(context.Context, string) (*runtimeapi.ContainerStats, error) {
	return nil, unable("measure")
}

func (r *processes) ListContainerStats(context.Context, *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error) {
	return nil, nil
}

func (r *processes) PodSandboxStats(context.Context, string) (*runtimeapi.PodSandboxStats, error) {
	return nil, unable("measure")
}

func (r *processes) ListPodSandboxStats(context.Context, *runtimeapi.PodSandboxStatsFilter) ([]*runtimeapi.PodSandboxStats, error) {
	return nil, nil
}

func (r *processes) ListMetricDescriptors(context.Context) ([]*runtimeapi.MetricDescriptor, error) {
	return nil, nil
}

func (r *processes) ListPodSandboxMetrics(context.Context) ([]*runtimeapi.PodSandboxMetrics, error) {
	return nil, nil
}

func (r *processes) Close() error { return nil }

const execBound = 10 * time.Minute
