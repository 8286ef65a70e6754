"""ResNet-50 over photographs: the class, its probability and an embedding for each.

    gpulane map examples/map/resnet.py:ResNet 'photos/**/*.jpg' --out classes

Needs torch and torchvision. JPEGs may arrive as planes or undecoded and are finished on the GPU; the model does not notice.
"""

import os

import torch
import torchvision

import gpulane


class ResNet(gpulane.Model):
    """With ImageNet's weights if they are on this machine (or can be fetched), otherwise with weights of chance, said so."""

    decode = "rgb:224x224:crop"
    batch = 256

    def setup(self):
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.type = torch.bfloat16 if self.device == "cuda" else torch.float32
        weights = torchvision.models.ResNet50_Weights.IMAGENET1K_V2
        self.labels = weights.meta["categories"]
        try:
            net = torchvision.models.resnet50(weights=weights)
        except OSError as error:
            print(f"no weights ({error}): the classes below mean nothing", flush=True)
            net = torchvision.models.resnet50(weights=None)
        net = net.to(self.device, self.type, memory_format=torch.channels_last).eval()
        self.head, net.fc = net.fc, torch.nn.Identity()
        self.body = torch.compile(net) if os.environ.get("RESNET_COMPILE") else net
        self.mean = torch.tensor([0.485, 0.456, 0.406], device=self.device).view(1, 3, 1, 1) * 255
        self.deviation = torch.tensor([0.229, 0.224, 0.225], device=self.device).view(1, 3, 1, 1) * 255

    @torch.inference_mode()
    def predict_batch(self, batch):
        pixels = ((batch.float() - self.mean) / self.deviation).to(self.type)
        embedding = self.body(pixels)
        probability, best = self.head(embedding).float().softmax(1).max(1)
        # Tensors stay on the GPU: gpulane fetches them while the next batch is worked on.
        return {"class": best, "probability": probability, "embedding": embedding}
