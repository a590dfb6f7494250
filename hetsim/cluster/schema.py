"""What a file of Ray's cluster launcher may say, as far as hetsim reads it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from hetsim.hardware.files.figures import Strict, Text

NotNegativeInt = Annotated[StrictInt, Field(ge=0)]
Amount = Annotated[StrictFloat, Field(ge=0)]
Commands = tuple[StrictStr, ...]


class ProviderModel(BaseModel):
    """Whose machines they are; every provider has keys of its own."""

    model_config = ConfigDict(frozen=True, extra="allow")

    type: Text
    head_ip: StrictStr | None = None
    worker_ips: tuple[StrictStr, ...] | None = None
    coordinator_address: StrictStr | None = None


class NodeTypeModel(Strict):
    """One kind of machine."""

    resources: dict[str, NotNegativeInt] = Field(default_factory=dict)
    node_config: dict[str, Any] = Field(default_factory=dict)
    labels: dict[str, StrictStr] = Field(default_factory=dict)
    min_workers: NotNegativeInt = 0
    max_workers: NotNegativeInt | None = None
    idle_timeout_s: Amount | None = None
    priority: StrictInt | None = None
    initialization_commands: Commands = ()
    worker_setup_commands: Commands = ()
    docker: dict[str, Any] | None = None


class ClusterModel(Strict):
    """The whole file."""

    cluster_name: Text
    provider: ProviderModel
    auth: dict[str, Any] = Field(default_factory=dict)
    docker: dict[str, Any] = Field(default_factory=dict)
    min_workers: NotNegativeInt | None = None
    max_workers: NotNegativeInt | None = None
    upscaling_speed: Amount | None = None
    idle_timeout_minutes: Amount | None = None
    head_node_type: StrictStr | None = None
    available_node_types: dict[str, NodeTypeModel] | None = None
    file_mounts: dict[str, StrictStr] = Field(default_factory=dict)
    cluster_synced_files: tuple[StrictStr, ...] = ()
    file_mounts_sync_continuously: StrictBool = False
    rsync_exclude: tuple[StrictStr, ...] = ()
    rsync_filter: tuple[StrictStr, ...] = ()
    metadata: dict[str, Any] = Field(default_factory=dict)
    initialization_commands: Commands = ()
    setup_commands: Commands = ()
    head_setup_commands: Commands = ()
    worker_setup_commands: Commands = ()
    head_start_ray_commands: Commands = ()
    worker_start_ray_commands: Commands = ()
