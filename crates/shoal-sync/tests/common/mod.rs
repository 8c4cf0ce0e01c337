//! A whole run inside one test process: master, servers and workers as threads over real loopback sockets.
#![allow(dead_code, reason = "each test binary uses its own part")]

use shoal_sync::master::serve::{Master, Options};
use shoal_sync::server::{self, View};
use shoal_sync::{DType, Engine, Op, Settings, SyncError, TensorSpec};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

pub const TOKEN: &str = "a test's secret";

pub struct Gang {
    pub address: String,
    stop: Arc<AtomicBool>,
    master: Option<JoinHandle<Result<(), SyncError>>>,
    servers: Vec<JoinHandle<Result<(), SyncError>>>,
}

impl Gang {
    pub fn start(workers: u32, servers: u32) -> Gang {
        let options =
            Options { address: "tcp://127.0.0.1:0".into(), workers: Some(workers), servers, token: TOKEN.into() };
        let master = Master::bind(&options).expect("bind");
        let address = format!("tcp://{}", master.local_addr().expect("address"));
        let stop = Arc::new(AtomicBool::new(false));
        let flag = stop.clone();
        let master = Some(std::thread::spawn(move || master.run(&flag)));
        let servers = (0..servers)
            .map(|id| {
                let (settings, flag) = (settings(&address), stop.clone());
                std::thread::spawn(move || server::serve(&settings, Some(id), &flag, &Arc::new(View::default())))
            })
            .collect();
        Gang { address, stop, master, servers }
    }

    /// Runs `work` in every worker, each with its own engine, and shuts all down.
    pub fn work<T: Send + 'static>(
        self,
        workers: u32,
        change: impl Fn(&mut Settings),
        work: impl Fn(&Engine) -> T + Send + Sync + Clone + 'static,
    ) -> Vec<T> {
        let threads: Vec<_> = (0..workers)
            .map(|id| {
                let mut settings = settings(&self.address);
                settings.client_id = i64::from(id);
                change(&mut settings);
                let work = work.clone();
                std::thread::spawn(move || {
                    let engine = Engine::connect(settings).expect("connect");
                    let out = work(&engine);
                    engine.shutdown().expect("shutdown");
                    out
                })
            })
            .collect();
        let out = threads.into_iter().map(|t| t.join().expect("a worker panicked")).collect();
        self.end().expect("the run ended well");
        out
    }

    /// Waits for master and servers to end by themselves.
    pub fn end(mut self) -> Result<(), SyncError> {
        let mut outcome = Ok(());
        for thread in self.servers.drain(..) {
            outcome = outcome.and(thread.join().expect("a server panicked"));
        }
        if let Some(master) = self.master.take() {
            outcome = outcome.and(master.join().expect("the master panicked"));
        }
        outcome
    }
}

impl Drop for Gang {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

pub fn settings(address: &str) -> Settings {
    Settings {
        master_address: address.into(),
        token: TOKEN.into(),
        shared_memory: false,
        connect_timeout: std::time::Duration::from_secs(20),
        ..Settings::default()
    }
}

/// One sum or mean of f32 values, waited for.
pub fn combine(engine: &Engine, name: &str, values: &mut [f32], op: Op) -> Result<(), SyncError> {
    let spec = TensorSpec { dtype: DType::F32, shape: vec![values.len()], priority: 0 };
    let key = engine.register(name, spec)?;
    // SAFETY: `values` is borrowed until the wait has ended.
    unsafe { engine.push_pull(&key, values.as_mut_ptr().cast(), op) }?.wait()
}
