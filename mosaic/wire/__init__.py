"""The gRPC code built from `proto/mosaic/trainer.proto`; run `make setup` to build it again."""
