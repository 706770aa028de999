# syntax=docker/dockerfile:1
# A static binary and the certificate authorities: nothing else is in the image. For a build from the sources with a container
# engine; the images of a release are written by `make release` without one, and from no base image. BUILDER can name an image by
# its digest: `--build-arg BUILDER=rust@sha256:…`.

ARG BUILDER=rust:1.95-alpine3.22
FROM $BUILDER AS build
RUN apk add --no-cache build-base ca-certificates
WORKDIR /src
COPY . .
ARG CAPO_RS_REVISION=unknown
ENV CAPO_RS_REVISION=$CAPO_RS_REVISION
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --locked --release --package capo-rs --bin capo-rs \
    && install -D target/release/capo-rs /image/capo-rs \
    && install -D -m 644 /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ca-certificates.crt

FROM scratch
COPY --from=build /image/ /
USER 65532:65532
ENTRYPOINT ["/capo-rs"]
LABEL org.opencontainers.image.title="capo-rs" \
      org.opencontainers.image.description="Cluster API infrastructure provider for OpenStack" \
      org.opencontainers.image.source="https://github.com/capo-rs/capo-rs" \
      org.opencontainers.image.licenses="Apache-2.0"
