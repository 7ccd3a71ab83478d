"""The pod loop: what the API and manifests ask for, made true by the runtime, one worker per pod."""
