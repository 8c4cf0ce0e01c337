//! Makes an image of a cluster's head.

use crate::args::image::bake::Bake;
use crate::cluster::{aws::Aws, file};
use crate::commands::run::NotBegun;
use crate::exit::Exit;
use crate::say;
use serde_json::json;
use shoal_core::cluster::Provider;
use std::process::ExitCode;

pub fn run(args: &Bake) -> Result<ExitCode, NotBegun> {
    let cluster = file::read(&args.cluster.file, &args.cluster).map_err(NotBegun::Wrong)?;
    let Provider::Aws(said) = &cluster.provider else {
        return Err(NotBegun::Wrong(format!(
            "cluster `{}` is of machines that are there already; only nodes of a cloud (`provider: {{type: aws}}`) start from images",
            cluster.name
        )));
    };
    let here = |trouble: crate::cluster::provider::Trouble| NotBegun::Here(trouble.to_string());
    let aws = Aws::new(&cluster, said).map_err(here)?;
    let id = aws.bake(&args.name, !args.no_reboot, &|text| eprintln!("{text}")).map_err(here)?;
    if args.json {
        say::line(json!({ "image": id, "name": args.name, "region": said.region }));
    } else {
        say::line(&id);
        eprintln!("`ImageId: {}` in a node_config starts nodes from it; it stays until you deregister it", args.name);
    }
    Ok(Exit::Success.into())
}
