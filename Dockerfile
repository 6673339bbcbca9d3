# The five programs and nothing else: a static executable on an empty image, with a link for each program.
#   docker build -t gguf-tools .
#   docker run --rm -v "$PWD:/data" -w /data gguf-tools gguf-convert Llama-3.2-1B llama.gguf --type q4_k_m
# With binaries that scripts/build-binaries made, without a compiler:
#   docker build --build-arg FROM_DIST=1 -t gguf-tools .
ARG FROM_DIST=0

FROM --platform=$BUILDPLATFORM rust:1.95-slim AS built-0
RUN apt-get update && apt-get install -y --no-install-recommends python3-venv && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
ARG TARGETARCH
RUN scripts/build-binaries "$TARGETARCH" && mkdir /programs && cp -P dist/*-linux-musl/gguf-* /programs/

FROM scratch AS built-1
ARG TARGETARCH
COPY dist/docker/${TARGETARCH}/ /programs/

FROM built-${FROM_DIST} AS built

# Certificates, for models that are read from the Hub.
FROM alpine:3.22 AS certificates
RUN apk add --no-cache ca-certificates

FROM scratch
COPY --from=certificates /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=built /programs/ /usr/bin/
ENV PATH=/usr/bin
# An empty image has no folder for temporary files.
WORKDIR /tmp
WORKDIR /data
CMD ["gguf-convert", "--help"]
