package node

import (
	"os"
	"time"

	"k8s.io/kubernetes/cmd/kubelet/app/options"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
)

func folder(s spec, name string) string { return s.root + "/" + name }

// As the kubelet has it, but for where things are and for what would touch cgroups or take long.
func configuration(s spec) (*options.KubeletFlags, *kubeletconfig.KubeletConfiguration, error) {
	for _, name := range []string{"kubelet", "logs", "static", "containers"} {
		if err := os.MkdirAll(folder(s, name), 0o700); err != nil {
			return nil, nil, err
		}
	}
	flags := options.NewKubeletFlags()
	flags.RootDirectory = folder(s, "kubelet")
	flags.CertDirectory = folder(s, "kubelet/pki")
	flags.HostnameOverride = s.name
	flags.NodeIP = s.address
	flags.NodeLabels = pairs(s.labels)

	config, err := options.NewKubeletConfiguration()
	if err != nil {
		return nil, nil, err
	}
	config.PodLogsDir = folder(s, "logs")
	config.StaticPodPath = folder(s, "static")
	config.Address = s.address
	config.Port = int32(s.port)
	config.ReadOnlyPort = 0
	config.HealthzPort = 0
	config.TLSCertFile, config.TLSPrivateKeyFile = s.certificate, s.key
	config.Authentication.X509.ClientCAFile = s.authority
	config.MaxPods = int32(s.pods)
	config.CgroupsPerQOS = false
	config.EnforceNodeAllocatable = nil
	config.LocalStorageCapacityIsolation = false
	config.EnableControllerAttachDetach = false
	config.EvictionHard = nil
	config.ResolverConfig = ""
	config.SerializeImagePulls = false
	// A node that is gone is missed within seconds; see the controllers' node-monitor-grace-period.
	config.NodeLeaseDurationSeconds = 4
	config.NodeStatusUpdateFrequency.Duration = 2 * time.Second
	config.SyncFrequency.Duration = 5 * time.Second
	return flags, config, nil
}
