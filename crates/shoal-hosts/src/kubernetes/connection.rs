//! Which server, who are we there, which namespace? As `kubectl` finds it: the same files, variables and programs that log in.

use super::explain::{Failure, Trouble, explain, no_namespace};
use super::request;
use super::resource;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use shoal_core::suggest;
use std::path::PathBuf;
use std::time::Duration;
use tokio::runtime::Runtime;

/// How long a server may take to accept a connection.
const CONNECTING: Duration = Duration::from_secs(10);

/// What somebody says about where to go; the rest is the kubeconfig's.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    pub kubeconfig: Option<PathBuf>,
    pub context: Option<String>,
    pub namespace: Option<String>,
}

pub struct Connection {
    pub(super) client: Client,
    /// For those who need a client of their own.
    pub(super) config: Config,
    runtime: Runtime,
    /// The address of the API server.
    pub server: String,
    pub namespace: String,
}

impl Connection {
    /// Reads who and where, and asks the server whether the namespace is there.
    pub fn open(wanted: &Wanted) -> Result<Connection, Failure> {
        let system = |e: std::io::Error| {
            Failure::new(Trouble::Other, format!("no event loop: {e}"), "free some memory or files")
        };
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().map_err(system)?;
        let mut config = runtime.block_on(config(wanted))?;
        config.connect_timeout = Some(CONNECTING);
        let server = config.cluster_url.to_string().trim_end_matches('/').to_string();
        let namespace = wanted.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = {
            // The client starts a task of its own.
            let _inside = runtime.enter();
            Client::try_from(config.clone()).map_err(|error| explain(&error, &server))?
        };
        let connection = Connection { client, config, runtime, server, namespace };
        connection.block_on(connection.check_namespace())?;
        Ok(connection)
    }

    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Lists of a namespace that is not there are empty, not an error: so it is asked for by name. Who may not ask learns it later.
    async fn check_namespace(&self) -> Result<(), Failure> {
        match request::get(self, &resource::namespaces(), &self.namespace).await {
            Ok(None) => Err(no_namespace(&self.namespace)),
            Ok(Some(_)) => Ok(()),
            Err(failure) if failure.trouble == Trouble::Forbidden => Ok(()),
            Err(failure) => Err(failure),
        }
    }
}

async fn config(wanted: &Wanted) -> Result<Config, Failure> {
    let read = match &wanted.kubeconfig {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    let kubeconfig = match read {
        Ok(kubeconfig) => kubeconfig,
        // Inside a pod there is no file, but an account.
        Err(error) if wanted.kubeconfig.is_none() && wanted.context.is_none() => {
            return Config::incluster().map_err(|_| unread(&error));
        }
        Err(error) => return Err(unread(&error)),
    };
    let contexts: Vec<&str> = kubeconfig.contexts.iter().map(|one| one.name.as_str()).collect();
    if let Some(context) = wanted.context.as_deref().filter(|name| !contexts.contains(name)) {
        let meant = suggest::closest(context, contexts.iter().copied());
        let hint = match meant {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("it has: {}", contexts.join(", ")),
        };
        return Err(Failure::new(Trouble::BadKubeconfig, format!("your kubeconfig has no context `{context}`"), hint));
    }
    let options = KubeConfigOptions { context: wanted.context.clone(), ..KubeConfigOptions::default() };
    Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| unread(&error))
}

fn unread(error: &KubeconfigError) -> Failure {
    match error {
        KubeconfigError::ReadConfig(why, path) if why.kind() == std::io::ErrorKind::NotFound => Failure::new(
            Trouble::NoKubeconfig,
            format!("there is no kubeconfig: {} does not exist", path.display()),
            "get one from whoever runs the cluster and put it there, or say where it is with --kubeconfig or KUBECONFIG",
        ),
        KubeconfigError::FindPath => Failure::new(
            Trouble::NoKubeconfig,
            "there is no kubeconfig: neither KUBECONFIG nor HOME says where it would be",
            "say where it is with --kubeconfig",
        ),
        KubeconfigError::CurrentContextNotSet => Failure::new(
            Trouble::BadKubeconfig,
            "your kubeconfig has no current context",
            "say which with --context; `kubectl config get-contexts` shows them",
        ),
        other => Failure::new(
            Trouble::BadKubeconfig,
            format!("your kubeconfig cannot be used: {other}"),
            "`kubectl config view` shows what it says; get a new one from whoever runs the cluster",
        ),
    }
}
